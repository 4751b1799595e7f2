<?php // What PHP's functions pg_... can do.
[, $scripted, $real, $password, $counted, $ends] = $argv;
function to($port, $password, $more = '') { return @pg_connect("host=localhost port=$port user=ada password='$password' dbname=study $more", PGSQL_CONNECT_FORCE_NEW); }
function same($found, $wanted) { if ($found !== $wanted) throw new Exception(var_export($found, true) . ' for ' . var_export($wanted, true)); }
same(to($scripted, 'wrong'), false);
$con = to($scripted, $password, 'sslmode=require channel_binding=require');
echo "password binding\n";
same(pg_fetch_row(pg_query($con, 'ALL TYPES')), ['42', '1' . str_repeat('0', 30), '1.5', 't', 'ä"\'', '2024-02-29', '2024-02-29 12:30:01.00025']);
echo "values\n";
same(pg_fetch_row(pg_query_params($con, 'ECHO $1::BIGINT $2::VARCHAR', [3, 'ä'])), ['3', 'ä']);
pg_prepare($con, 'made', 'ECHO $1::BIGINT');
foreach ([3, 4] as $i) same(pg_fetch_row(pg_execute($con, 'made', [$i])), [(string) $i]);
echo "parameters prepared\n";
pg_send_query($con, 'BOGUS'); $told = pg_get_result($con);
same([pg_result_error_field($told, PGSQL_DIAG_SQLSTATE), pg_result_error_field($told, PGSQL_DIAG_STATEMENT_POSITION)], ['42601', '1']);
while (pg_get_result($con));
echo "place\n";
pg_send_query($con, 'SLEEP 20'); usleep(500000); assert(pg_cancel_query($con)); while (pg_get_result($con)); same(pg_fetch_row(pg_query($con, 'ROWS 1')), ['0']);
echo "cancel\n";
pg_query($con, 'BEGIN'); same(@pg_query($con, 'FAIL'), false); pg_query($con, 'ROLLBACK'); same(pg_fetch_row(pg_query($con, 'ROWS 1')), ['0']);
echo "transactions\n";
$pool = array_map(fn() => to($real, $password), range(1, 10));
foreach (array_chunk($pool, 4) as $some) {  // asked at once, as many as the server lets an account
    foreach ($some as $each) pg_send_query($each, $counted);
    foreach ($some as $each) { same(pg_fetch_all_columns(pg_get_result($each)), ['excellent', 'fair', 'good', 'poor']); while (pg_get_result($each)); }
}
echo "pools\n";
$con = $pool[0]; assert(str_starts_with(pg_last_notice($con, PGSQL_NOTICE_ALL)[0], 'NOTICE:  cost'));
echo "notices\n";
$told = pg_query($con, $ends); same(array_map(fn($at) => pg_field_name($told, $at), [0, 1, 2]), ['n', 'n_low', 'n_high']);
echo "ends\n";
same(substr(implode(pg_copy_to($con, "($counted)", ',')), 0, 10), 'excellent,');
echo "copied\n";
pg_query($con, 'BEGIN'); pg_query($con, "DECLARE some CURSOR FOR $counted"); same(pg_num_rows(pg_query($con, 'FETCH 3 FROM some')), 3); pg_query($con, 'COMMIT');
echo "cursors\n";
assert(pg_fetch_row(pg_query_params($con, 'SELECT COUNT(*) AS n FROM people WHERE health = ANY($1)', ['{good,fair}']))[0] > 0);
assert(pg_fetch_row(pg_query_params($con, 'SELECT COUNT(*) AS n FROM people WHERE site IN ($1, $2)', [1, 2]))[0] > 0);
echo "arrays\n";
assert(isset(pg_meta_data($con, 'people')['health']));
echo "tables\n";
