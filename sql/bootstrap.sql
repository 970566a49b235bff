-- bootstrap: what must be there before the first migration can be recorded: the roles, the schema and the list of
-- migrations. Run by every `pawl db migrate` under its advisory lock, so every part of it may find itself done already.
-- Roles belong to the whole server, so another database may be creating them at this very moment.

DO $roles$
DECLARE
    wanted text;
BEGIN
    FOREACH wanted IN ARRAY ARRAY['pawl_owner', 'pawl_server', 'pawl_worker', 'pawl_producer', 'pawl_enqueuer',
                                'pawl_reader'] LOOP
        IF NOT EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = wanted) THEN
            BEGIN
                EXECUTE pg_catalog.format('CREATE ROLE %I NOLOGIN', wanted);
            EXCEPTION
                WHEN duplicate_object OR unique_violation THEN
                    NULL; -- somebody else was faster; a role is a role
            END;
        END IF;
    END LOOP;

    -- A server does all that the others do.
    FOREACH wanted IN ARRAY ARRAY['pawl_worker', 'pawl_producer', 'pawl_reader'] LOOP
        IF NOT pg_catalog.pg_has_role('pawl_server', wanted, 'MEMBER') THEN
            BEGIN
                EXECUTE pg_catalog.format('GRANT %I TO pawl_server', wanted);
            EXCEPTION
                WHEN unique_violation THEN
                    NULL;
            END;
        END IF;
    END LOOP;

    -- Whoever migrates must be able to act as the owner. USAGE and not MEMBER: since PostgreSQL 16 the creator of a
    -- role is a member who may only hand it on.
    IF NOT pg_catalog.pg_has_role(CURRENT_USER, 'pawl_owner', 'USAGE') THEN
        BEGIN
            EXECUTE pg_catalog.format('GRANT pawl_owner TO %I', CURRENT_USER);
        EXCEPTION
            WHEN insufficient_privilege THEN
                NULL; -- a member that does not inherit can still act as it; who cannot fails below
        END;
    END IF;

    IF NOT EXISTS (SELECT FROM pg_catalog.pg_namespace WHERE nspname = 'pawl') THEN
        CREATE SCHEMA pawl AUTHORIZATION pawl_owner;
    END IF;
END
$roles$;

SET LOCAL ROLE pawl_owner;

DO $migration$
BEGIN
    IF pg_catalog.to_regclass('pawl.migration') IS NULL THEN
        CREATE TABLE pawl.migration (
            version    integer PRIMARY KEY,
            name       text NOT NULL,
            checksum   text NOT NULL, -- SHA-256 of the file that was applied, in hexadecimal
            applied_at timestamptz NOT NULL DEFAULT pg_catalog.clock_timestamp(),
            applied_by text NOT NULL  -- version of the pawl that applied it
        );
        COMMENT ON TABLE pawl.migration IS 'What was done to this schema, in order';
        GRANT USAGE ON SCHEMA pawl TO pawl_server, pawl_worker, pawl_producer, pawl_reader;
        GRANT SELECT ON pawl.migration TO pawl_server, pawl_worker, pawl_producer, pawl_reader;
    END IF;
END
$migration$;
