<?php // What PDO can do.
[, $scripted, $real, $password, $counted, $ends] = $argv;
function to($port, $password, $more = '') {
    return new PDO("pgsql:host=localhost;port=$port;dbname=study$more", 'ada', $password, [PDO::ATTR_ERRMODE => PDO::ERRMODE_EXCEPTION]); }
function same($found, $wanted) { if ($found !== $wanted) throw new Exception(var_export($found, true) . ' for ' . var_export($wanted, true)); }
function refused($ask) { try { $ask(); } catch (PDOException $fault) { return $fault; } throw new Exception('not refused'); }
assert(str_contains(refused(fn() => to($scripted, 'wrong'))->getMessage(), 'password authentication failed'));
$con = to($scripted, $password, ';sslmode=require;channel_binding=require');
echo "password binding\n";
$rows = $con->query('ALL TYPES')->fetchAll(PDO::FETCH_NUM);
same($rows, [[42, '1' . str_repeat('0', 30), '1.5', true, 'ä"\'', '2024-02-29', '2024-02-29 12:30:01.00025'], array_fill(0, 7, null)]);
echo "values\n";
$made = $con->prepare('ECHO ?::BIGINT ?::VARCHAR ?::BOOLEAN');
foreach ([3, 4] as $i) { $made->execute([$i, 'ä', 'true']); same($made->fetchAll(PDO::FETCH_NUM), [[$i, 'ä', true]]); }
echo "parameters prepared\n";
$fault = refused(fn() => $con->query('BOGUS')); same($fault->getCode(), '42601');
assert(str_contains($fault->getMessage(), "LINE 1: BOGUS\n        ^") && str_contains($fault->getMessage(), 'a hint'), $fault->getMessage());
echo "place\n";
$con->beginTransaction(); refused(fn() => $con->query('FAIL')); $con->rollBack(); $con->beginTransaction(); same($con->query('ROWS 1')->fetchColumn(), 0); $con->commit();
echo "transactions\n";
$pool = array_map(fn() => to($real, $password), range(1, 10));
foreach ($pool as $each) same($each->query($counted)->fetchAll(PDO::FETCH_COLUMN), ['excellent', 'fair', 'good', 'poor']);
echo "pools\n";
$con = $pool[0]; $made = $con->query($ends); same(array_map(fn($at) => $made->getColumnMeta($at)['name'], [0, 1, 2]), ['n', 'n_low', 'n_high']);
echo "ends\n";
$con->beginTransaction();
$made = $con->prepare($counted, [PDO::ATTR_CURSOR => PDO::CURSOR_SCROLL]); $made->execute();
same([$made->fetch()['health'], $made->fetch(PDO::FETCH_ASSOC, PDO::FETCH_ORI_LAST)['health']], ['excellent', 'poor']); $con->commit();
echo "cursors\n";
$made = $con->prepare('SELECT COUNT(*) AS n FROM people WHERE health = ANY(?)'); $made->execute(['{good,fair}']); assert($made->fetchColumn() > 0);
$made = $con->prepare('SELECT COUNT(*) AS n FROM people WHERE site IN (?, ?)'); $made->execute([1, 2]); assert($made->fetchColumn() > 0);
echo "arrays\n";
$made = $con->prepare('SELECT column_name FROM information_schema.columns WHERE table_schema = ? AND table_name = ?'); $made->execute(['public', 'people']);
assert(in_array('health', $made->fetchAll(PDO::FETCH_COLUMN)));
echo "tables\n";
