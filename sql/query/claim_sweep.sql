-- Purpose: takes back at most $1 jobs of claims whose lease has run out (pawl.claims_sweep says how).
-- Parameters: $1 int4 limit; $2 uuid token and $3 int8 id: this job of this claim alone ($1 is 1), or NULL and 0: any;
--             $4 int8 the low mark of the ledger: no claim has a lower seq
-- Rows: id int8, state text: what the job is now (retrying, failed, parked, cancelled). And with id 0, lanes: some lane
--       or orphan is for lanes_mend; more: there are more than $1
-- Locks: expired claims, then their jobs, then parents of those that end, skipping what others hold
-- Index: claim_seq from the low mark; held is read whole (it is tiny); claim_pkey, held_pkey, job_pkey, job_option_pkey, kind_pkey,
--        and those of pawl.jobs_end
-- Roles: worker
SELECT s.id, s.state FROM pawl.claims_sweep($1::int4, $2::uuid, $3::int8, $4::int8) AS s
