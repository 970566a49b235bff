// A small worker in Go, for go_test.py: what docs/guides/workers-in-any-language.md says, on grpc-go. It doubles
// numbers until SIGTERM.
//
// usage: worker ADDRESS
package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	mrand "math/rand"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	pb "pawltest/pawlv1"

	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"
)

const (
	service    = "/pawl.v1.WorkerService/"
	credits    = 16
	messageMax = 64 << 20
)

type worker struct {
	conn    *grpc.ClientConn
	id      string
	reports chan *pb.Report

	mu    sync.Mutex
	held  map[string]*pb.AssignedJob // by token, until its report is answered
	lease time.Duration
}

func (w *worker) running() []*pb.RunningJob {
	w.mu.Lock()
	defer w.mu.Unlock()
	var out []*pb.RunningJob
	for _, job := range w.held {
		out = append(out, &pb.RunningJob{JobId: job.JobId, Token: job.Token})
	}
	return out
}

func double(job *pb.AssignedJob) ([]byte, error) {
	var input struct{ N int }
	if err := json.Unmarshal(job.Payload, &input); err != nil {
		return nil, err
	}
	return json.Marshal(2 * input.N)
}

func (w *worker) run(job *pb.AssignedJob) {
	report := &pb.Report{JobId: job.JobId, Token: job.Token}
	if result, err := double(job); err != nil {
		report.Outcome = &pb.Report_Fail{Fail: &pb.FailOutcome{Error: err.Error()}}
	} else {
		report.Outcome = &pb.Report_Done{Done: &pb.DoneOutcome{Result: result}}
	}
	w.reports <- report
}

// One call at a time; whatever has ended meanwhile goes with the next. Repeated until it is answered.
func (w *worker) report() {
	for first := range w.reports {
		batch := []*pb.Report{first}
		for more := true; more && len(batch) < 500; {
			select {
			case one := <-w.reports:
				batch = append(batch, one)
			default:
				more = false
			}
		}
		for len(batch) > 0 {
			ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
			var answer pb.ReportResultResponse
			err := w.conn.Invoke(ctx, service+"ReportResult", &pb.ReportResultRequest{WorkerId: w.id, Reports: batch}, &answer, grpc.WaitForReady(true))
			cancel()
			var again []*pb.Report
			if err != nil {
				again = batch
			}
			w.mu.Lock()
			for i, one := range answer.Answers {
				if one.Status == pb.ItemStatus_ITEM_STATUS_RETRY {
					again = append(again, batch[i])
				} else {
					delete(w.held, string(batch[i].Token))
				}
			}
			w.mu.Unlock()
			if batch = again; len(batch) > 0 {
				pause()
			}
		}
	}
}

func (w *worker) beat() {
	for {
		w.mu.Lock()
		every := w.lease / 3
		w.mu.Unlock()
		time.Sleep(every)
		if running := w.running(); len(running) > 0 {
			ctx, cancel := context.WithTimeout(context.Background(), every)
			var answer pb.HeartbeatResponse
			_ = w.conn.Invoke(ctx, service+"Heartbeat", &pb.HeartbeatRequest{WorkerId: w.id, Running: running}, &answer, grpc.WaitForReady(true))
			cancel()
		}
	}
}

func (w *worker) stream(ctx context.Context) error {
	desc := &grpc.StreamDesc{StreamName: "StreamJobs", ServerStreams: true}
	stream, err := w.conn.NewStream(ctx, desc, service+"StreamJobs", grpc.WaitForReady(true))
	if err != nil {
		return err
	}
	opening := &pb.StreamJobsRequest{Kinds: []string{"double"}, WorkerId: w.id, WorkerName: "go", Credits: credits, Running: w.running()}
	if err := stream.SendMsg(opening); err != nil {
		return err
	}
	if err := stream.CloseSend(); err != nil {
		return err
	}
	for {
		var message pb.StreamJobsResponse
		if err := stream.RecvMsg(&message); err != nil {
			return err
		}
		if opened := message.GetOpened(); opened != nil {
			w.mu.Lock()
			w.lease = time.Duration(opened.LeaseMs) * time.Millisecond
			w.mu.Unlock()
		}
		for _, job := range message.GetAssignment().GetJobs() {
			w.mu.Lock()
			w.held[string(job.Token)] = job
			w.mu.Unlock()
			go w.run(job)
		}
		if message.GetDrain() != nil {
			return nil
		}
	}
}

func pause() {
	time.Sleep(100*time.Millisecond + time.Duration(mrand.Intn(400))*time.Millisecond)
}

func main() {
	conn, err := grpc.Dial(os.Args[1], grpc.WithInsecure(), grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(messageMax)),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 10 * time.Second, Timeout: 5 * time.Second, PermitWithoutStream: true}))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	id := make([]byte, 16)
	if _, err := rand.Read(id); err != nil {
		panic(err)
	}
	w := &worker{conn: conn, id: hex.EncodeToString(id), reports: make(chan *pb.Report, credits), held: map[string]*pb.AssignedJob{}, lease: 30 * time.Second}
	go w.report()
	go w.beat()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	for ctx.Err() == nil {
		_ = w.stream(ctx)
		if ctx.Err() == nil {
			pause()
		}
	}
	for len(w.running()) > 0 { // what runs is finished and reported
		time.Sleep(10 * time.Millisecond)
	}
	fmt.Println("end")
}
