\i /tmp/pgs/claim.sql
\set a '\'q\', \'{k}\', 7, gen_random_uuid(), gen_random_uuid(), 60000, array_fill(\'-infinity\'::timestamptz,array[20]), array_fill(0::int8,array[20]), \'{19,9,18,8,17,7,16,6,15,5,14,4,13,3,12,2,11,1,10,0}\''
set jit=on; set plan_cache_mode=force_custom_plan; set enable_mergejoin=off;
begin;
\timing on
execute claim(:a,8);
rollback;
