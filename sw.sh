for s in enable_nestloop enable_hashjoin enable_mergejoin enable_indexscan enable_tidscan enable_material enable_sort enable_hashagg; do for m in custom generic; do cat > sw.sql <<S
\i /tmp/pgs/claim.sql
\set a '\'q\', \'{k}\', 7, gen_random_uuid(), gen_random_uuid(), 60000, array_fill(\'-infinity\'::timestamptz,array[20]), array_fill(0::int8,array[20]), \'{19,9,18,8,17,7,16,6,15,5,14,4,13,3,12,2,11,1,10,0}\''
set jit=$1; set plan_cache_mode=force_${m}_plan; set $s=off;
begin;
\timing on
execute claim(:a,8);
rollback;
S
echo $s $m $(timeout 60 psql -At -d t1 -f sw.sql | grep Time | head -1); done; done
