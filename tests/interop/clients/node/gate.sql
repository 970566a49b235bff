-- While public.gate has a row, whatever adds a job waits in its commit.
CREATE TABLE public.gate ();
CREATE FUNCTION public.gate_wait() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    WHILE EXISTS (SELECT FROM public.gate) LOOP PERFORM pg_sleep(0.01); END LOOP;
    RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER gate AFTER INSERT ON pawl.job DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION public.gate_wait();
