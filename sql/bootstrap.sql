-- bootstrap: what must be there before the first migration can be recorded: the roles, the schema and the list of
-- migrations. Run by every `pawl db migrate` under its advisory lock, so every part of it may find itself done already.
-- Roles belong to the whole server, so another database may be creating them at this very moment, or somebody else may own them.
-- PW006: somebody else must grant something; the hint says who and what.

DO $roles$
DECLARE
    wanted text;
    -- Since PostgreSQL 16 a member may be one without the right to act as the role.
    acting constant text := CASE WHEN pg_catalog.current_setting('server_version_num')::integer >= 160000 THEN 'SET'
                                 ELSE 'MEMBER' END;
    granters text;
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
                WHEN insufficient_privilege THEN
                    RAISE EXCEPTION 'the role pawl_server must be a member of %, and "%" may not grant that', wanted, CURRENT_USER
                        USING ERRCODE = 'PW006',
                              HINT = pg_catalog.format('Have a superuser run: GRANT %I TO pawl_server', wanted);
            END;
        END IF;
    END LOOP;

    -- Whoever migrates must be able to act as the owner. Since PostgreSQL 16 the creator of a role is a member who may only
    -- hand it on, to itself as well; another account needs the creator, or a superuser.
    IF NOT pg_catalog.pg_has_role(CURRENT_USER, 'pawl_owner', 'USAGE')
       OR NOT pg_catalog.pg_has_role(CURRENT_USER, 'pawl_owner', acting) THEN
        BEGIN
            EXECUTE pg_catalog.format('GRANT pawl_owner TO %I', CURRENT_USER);
        EXCEPTION
            WHEN insufficient_privilege THEN
                NULL; -- a member that does not inherit can still act as it
        END;
    END IF;
    IF NOT pg_catalog.pg_has_role(CURRENT_USER, 'pawl_owner', acting) THEN
        SELECT pg_catalog.string_agg(pg_catalog.quote_ident(m.rolname), ' or ' ORDER BY m.rolname)
        INTO granters
        FROM pg_catalog.pg_auth_members AS a
        JOIN pg_catalog.pg_roles AS r ON r.oid = a.roleid AND r.rolname = 'pawl_owner'
        JOIN pg_catalog.pg_roles AS m ON m.oid = a.member
        WHERE a.admin_option;
        RAISE EXCEPTION 'the database user "%" may not act as the role pawl_owner, which owns the schema pawl', CURRENT_USER
            USING ERRCODE = 'PW006',
                  DETAIL = 'Roles belong to the whole server, and another user has made this one.',
                  HINT = pg_catalog.format('Have %sa superuser run: GRANT pawl_owner TO %I; then migrate again.',
                                           CASE acting WHEN 'MEMBER' THEN 'a user with CREATEROLE or '
                                                       ELSE granters || ' or ' END, CURRENT_USER);
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
