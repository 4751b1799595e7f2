-- Expressions and statements over extreme values; test_outcomes.py says what each list is for.
-- # NUMBERS
big
tiny
huge
wide
x
y
d
big + 1
big - 1
big * 2
big * big
-big
abs(big)
abs(-9223372036854775808)
9223372036854775807 + 1
-9223372036854775807 - 2
9223372036854775807 * 9223372036854775807
abs(tiny) * tiny
tiny * tiny * tiny
huge + huge
wide - huge
huge * 1e300
x * 1e308
x * x
x + x
x - x
x / 0
x / x
1 / x
0 / 0
big / 0
tiny // 0
tiny // -1
tiny % 0
big % -1
big % tiny
x % 0
x % x
tiny // tiny
tiny % tiny
sqrt(x)
sqrt(-1)
cbrt(x)
ln(x)
ln(0)
log10(y)
log2(y)
log(2, x)
log(x)
exp(x)
exp(y)
exp(710)
pow(x, 2)
pow(x, -1)
pow(x, 0.5)
pow(x, 400)
pow(x, 0)
power(big, 3)
sin(x)
cos(y)
tan(x)
atan(x)
radians(x)
degrees(y)
floor(x)
ceil(y)
trunc(x)
round(x)
round(x, 3)
round(d, 15)
round(big)
floor(big)
sign(x)
sign(big)
sign(y)
isnan(x)::INTEGER
length(s)
strpos(s, 'a')
CAST(s AS INTEGER)
CAST(s AS BIGINT)
CAST(s AS DOUBLE)
CAST(s AS DECIMAL(5, 2))
CAST(s AS BOOLEAN)::INTEGER
CAST(x AS INTEGER)
CAST(x AS BIGINT)
CAST(x AS TINYINT)
CAST(x AS DECIMAL(4, 1))
CAST(x AS FLOAT)
CAST(y AS BIGINT)
CAST(wide AS BIGINT)
CAST(huge AS BIGINT)
CAST(huge AS INTEGER)
CAST(big AS INTEGER)
CAST(big AS TINYINT)
CAST(big AS DOUBLE)
CAST(b AS INTEGER)
TRY_CAST(s AS INTEGER)
year(day)
month(day)
quarter(seen)
week(day)
day(seen)
dayofweek(day)
isodow(seen)
dayofyear(day)
hour(seen)
second(seen)
extract(doy FROM day)
date_part('minute', seen)
date_diff('day', day, DATE '2000-01-01')
date_diff('month', day, seen)
date_diff('year', seen, day)
date_diff('hour', seen, TIMESTAMP '2000-01-01 00:00:00')
date_diff('second', seen, seen)
date_diff('week', day, DATE '9999-12-31')
day - DATE '2000-01-01'
year(day + INTERVAL 100 YEAR)
year(day - INTERVAL 1000 YEAR)
year(seen + INTERVAL 1 MONTH)
day(day + 36500)
month(date_trunc('month', day))
hour(date_trunc('hour', seen))
CASE WHEN x > 0 THEN 1 / x ELSE x END
CASE WHEN b THEN big ELSE tiny END
coalesce(x, y, d, 0)
nullif(x, 0)
least(x, y, d)
greatest(big, tiny)
if(b, x, big)
ifnull(d, x)
-- # TRUTHS
x = x
x = CAST('NaN' AS DOUBLE)
x > 1e308
x <> y
x IS DISTINCT FROM y
x IS NULL
b
NOT b
b AND x > 0
b OR x > 0
b IS NOT TRUE
isnan(x)
isinf(x)
isfinite(y)
x BETWEEN y AND d
x IN (1, 2.5, 1e308)
big IN (-9223372036854775808, 9223372036854775807)
s IN ('', 'NaN')
s = ''
s > 'a'
s LIKE '%'
s LIKE '_%'
s LIKE '%\'
s NOT LIKE '%a%'
s ILIKE 'İ%'
regexp_matches(s, '^.*$')
regexp_matches(s, '(a+)+$')
regexp_matches(s, '\d{3,}')
regexp_full_match(s, '[[:alpha:]]*')
contains(s, '')
starts_with(s, 'é')
ends_with(s, 'x')
upper(s) = lower(s)
reverse(s) = s
trim(s) = ''
left(s, -1) = ''
right(s, 10000) = s
substring(s, -3, 2) = 'a'
substring(s, 0) = s
s || s = s
day = DATE '9999-12-31'
day > '2000-01-01'
day < seen
day IS NOT NULL
seen = TIMESTAMP '9999-12-31 23:59:59'
CAST(s AS DATE) > DATE '2000-01-01'
CAST(s AS TIMESTAMP) < TIMESTAMP '2000-01-01 00:00:00'
CAST(day AS VARCHAR) = 'infinity'
CAST(x AS VARCHAR) = 'nan'
CAST(big AS VARCHAR) LIKE '-%'
CAST(day AS TIMESTAMP) = seen
CAST(seen AS DATE) = day
kind IN (SELECT kind FROM kinds)
kind NOT IN (SELECT kind FROM kinds)
kind NOT IN (SELECT kind FROM kinds WHERE kind IS NOT NULL)
x IN (SELECT v FROM kinds)
x NOT IN (SELECT v FROM kinds WHERE v > 0)
EXISTS (SELECT 1 FROM kinds WHERE kinds.v = x)
EXISTS (SELECT 1 FROM kinds WHERE kinds.day = things.day)
id IN (SELECT id FROM notes WHERE n < 0)
EXISTS (SELECT 1 FROM notes n WHERE n.id = things.id AND n.s = things.s)
-- # DECLARED
-- Answered with declared groups, in their order.
SELECT COUNT(*) FROM things
SELECT COUNT(*) FROM notes
SELECT COUNT(*) FROM people WHERE FALSE
SELECT sex, COUNT(*) FROM people GROUP BY sex
SELECT sex, AVG(x), STDDEV(x), VAR_POP(x) FROM people GROUP BY sex
SELECT tiny, COUNT(*), SUM(x) FROM things GROUP BY tiny
SELECT tiny, b, COUNT(*) FROM things GROUP BY tiny, b
SELECT day, COUNT(*) FROM things GROUP BY day
SELECT kind, COUNT(*), SUM(d), AVG(huge) FROM things GROUP BY kind
SELECT kind, MIN(x), MAX(x), MEDIAN(x) FROM things GROUP BY kind
SELECT kind, quantile_disc(day, 0.5), MIN(day), MAX(day) FROM things GROUP BY kind
SELECT MIN(d), MAX(d), quantile_cont(d, 0.1), quantile_cont(d, 0.9) FROM things
SELECT b, COUNT(DISTINCT s), COUNT(DISTINCT x), COUNT(DISTINCT day), COUNT(DISTINCT id) FROM things GROUP BY b
SELECT COUNT(DISTINCT kind), COUNT(DISTINCT seen), COUNT(DISTINCT d), COUNT(DISTINCT y) FROM things
SELECT x > 0 AS up, COUNT(*) FROM things GROUP BY up
SELECT CASE WHEN x > 0 THEN 'up' ELSE 'down' END AS way, COUNT(*) FROM things GROUP BY way
SELECT month(day) AS m, COUNT(*) FROM things GROUP BY m
SELECT tiny * 2 AS even, COUNT(*) FROM things GROUP BY even
SELECT SUM(y), AVG(y), MEDIAN(y), COUNT(y) FROM things
SELECT MIN(y), MAX(y) FROM things WHERE isnan(y)
SELECT SUM(n), AVG(n), COUNT(*) FROM notes
SELECT MEDIAN(n), COUNT(DISTINCT s) FROM notes
SELECT p.sex, SUM(t.x) FROM people p JOIN things t ON t.id = p.id GROUP BY p.sex
SELECT p.sex, COUNT(t.thing) FROM people p LEFT JOIN things t ON t.id = p.id AND t.x > p.x GROUP BY p.sex
SELECT COUNT(*) FROM things t JOIN kinds k ON t.x = k.v
SELECT COUNT(*) FROM things t LEFT JOIN kinds k ON t.day = k.day
SELECT COUNT(*) FROM things t JOIN kinds k ON t.x > k.v
SELECT COUNT(*) FROM things a JOIN things b ON a.id = b.id AND a.x = b.y
SELECT COUNT(*) FROM things a JOIN things b ON a.x = b.x
SELECT COUNT(*) FROM things t JOIN notes n ON n.id = t.id AND n.s = t.s
SELECT AVG(m) FROM (SELECT id, MAX(d) AS m FROM things GROUP BY id) t
SELECT AVG(m), COUNT(*) FROM (SELECT id, SUM(x) AS m FROM things GROUP BY id) t
SELECT SUM(m) FROM (SELECT id, COUNT(DISTINCT s) AS m FROM things GROUP BY id) t
SELECT COUNT(*) FROM (SELECT id, kind, AVG(x) AS a FROM things GROUP BY id, kind HAVING AVG(x) > 0) t
SELECT COUNT(*) FROM (SELECT id, x, day, s FROM things GROUP BY id, x, day, s) t
SELECT COUNT(*) FROM (SELECT DISTINCT x, y, s FROM things) t
SELECT COUNT(*) FROM (SELECT DISTINCT day FROM things) t
SELECT COUNT(n), SUM(LEAST(GREATEST(s, -5), 5)) FROM (SELECT SUM(big) OVER w AS s, ROW_NUMBER() OVER w AS n FROM things WINDOW w AS (PARTITION BY id ORDER BY x, y)) t
SELECT AVG(a), SUM(LEAST(GREATEST(w, -5), 5)) FROM (SELECT AVG(x) OVER w AS a, SUM(CAST(wide AS BIGINT)) OVER w AS w FROM things WINDOW w AS (PARTITION BY id, b ORDER BY day DESC NULLS FIRST, s ROWS 2 PRECEDING)) t
SELECT COUNT(*), AVG(c) FROM (SELECT x - LAG(x) OVER (PARTITION BY id ORDER BY seen) AS c FROM things) t WHERE isnan(c) OR c > 0
SELECT kind, COUNT(*) FROM (SELECT FIRST_VALUE(kind) OVER w AS kind, LAST_VALUE(day) OVER w AS day, LEAD(seen, 1, seen) OVER w AS seen FROM things WINDOW w AS (PARTITION BY id ORDER BY y)) t WHERE day <= seen GROUP BY kind
SELECT part, COUNT(*), SUM(d) FROM (SELECT NTILE(3) OVER (PARTITION BY id ORDER BY big DESC) AS part, MAX(d) OVER (PARTITION BY id, kind) AS d FROM things) t GROUP BY part
SELECT COUNT(*), SUM(x) FROM (SELECT * FROM things QUALIFY ROW_NUMBER() OVER (PARTITION BY id ORDER BY x DESC, day) = 1 AND COUNT(DISTINCT s) OVER (PARTITION BY id) > 0) t
SELECT COUNT(*), SUM(x) FROM (SELECT * FROM things QUALIFY ROW_NUMBER() OVER (PARTITION BY s ORDER BY y) <= 2) t
SELECT COUNT(r), SUM(LEAST(r, 3)) FROM (SELECT RANK() OVER (PARTITION BY day ORDER BY x) AS r FROM (SELECT day, x FROM things QUALIFY ROW_NUMBER() OVER (PARTITION BY day ORDER BY x) <= 3) t) u
SELECT COUNT(c), AVG(c) FROM (SELECT LEAST(GREATEST(huge - LAG(huge, 2) OVER (PARTITION BY x ORDER BY seen, day), -9), 9) AS c FROM things) t
SELECT SUM(m) FROM (SELECT MIN(n) OVER (PARTITION BY id ORDER BY s ROWS BETWEEN 1 FOLLOWING AND 3 FOLLOWING) AS m FROM notes) t
SELECT COUNT(*) FROM (SELECT id, s FROM things UNION ALL SELECT id, s FROM notes UNION ALL SELECT id, word FROM people) u
SELECT SUM(v) FROM (SELECT id, x AS v FROM things UNION ALL SELECT id, x FROM people) u
SELECT COUNT(*) FROM (SELECT x, y FROM things UNION SELECT y, x FROM things) u
SELECT COUNT(*), COUNT(a) FROM (SELECT day AS a FROM things EXCEPT SELECT day FROM kinds) u
SELECT COUNT(*) FROM (SELECT x FROM things INTERSECT ALL SELECT y FROM things) u
SELECT COUNT(*) FROM (SELECT id, x, s FROM things EXCEPT ALL SELECT id, y, s FROM things) u
SELECT COUNT(*), SUM(x) FROM (SELECT x FROM things INTERSECT SELECT v FROM kinds) u
SELECT COUNT(*) FROM kinds k LEFT JOIN things t ON t.kind = k.kind
SELECT COUNT(*), COUNT(thing) FROM things t FULL JOIN kinds k ON t.x = k.v
SELECT COUNT(*) FROM things FULL JOIN people USING (id)
SELECT COUNT(id) FROM notes FULL JOIN people USING (id) FULL JOIN things USING (id)
SELECT COUNT(*) FROM things t RIGHT JOIN kinds k ON t.day < k.day
SELECT COUNT(*) FROM kinds SEMI JOIN things ON kinds.v = things.x
SELECT COUNT(*) FROM things t ANTI JOIN kinds k ON t.x > k.v
SELECT COUNT(*) FROM kinds WHERE v IN (SELECT x FROM things) OR day > DATE '2000-01-01'
SELECT COUNT(*) FROM kinds k WHERE NOT EXISTS (SELECT 1 FROM things t WHERE t.x > k.v AND t.day = k.day)
SELECT COUNT(*) FROM (SELECT kind, SUM(x), AVG(huge), MAX(day), COUNT(DISTINCT y) FROM things GROUP BY kind) t
SELECT COUNT(*), SUM(LEAST(n, 4)) FROM (SELECT x, y, COUNT(*) AS n FROM things GROUP BY x, y HAVING SUM(d) > 0) t
SELECT AVG(GREATEST(LEAST(m, 9), -9)) FROM (SELECT day, SUM(x) AS m FROM things GROUP BY day) t
SELECT OPTIONS (bound = 'frequency', max_frequency = 2) COUNT(*), SUM(a.x) FROM things a JOIN things b ON a.x = b.x
SELECT OPTIONS (bound = 'frequency', max_frequency = 2) COUNT(*) FROM things a FULL JOIN things b ON a.day = b.day AND a.y = b.y
SELECT OPTIONS (bound = 'frequency', max_frequency = 2) COUNT(*) FROM things WHERE x IN (SELECT y FROM things)
SELECT OPTIONS (bound = 'frequency') COUNT(*) FROM things a LEFT JOIN things b ON a.s = b.s
SELECT OPTIONS (bound = 'frequency') COUNT(*) FROM notes a JOIN notes b ON a.s = b.s
SELECT OPTIONS (max_rows = 2) COUNT(*) FROM (SELECT s FROM things EXCEPT SELECT s FROM notes) t
WITH t AS (SELECT id, x FROM things WHERE x > 0) SELECT COUNT(*), SUM(x) FROM t
SELECT COUNT(*) FILTER (WHERE x > 0), SUM(d) FILTER (WHERE b), AVG(x) FILTER (WHERE isnan(y)) FROM things
SELECT SUM(x) / COUNT(*) AS a, 1 / COUNT(*) AS b, COUNT(*) % 2 AS c, SUM(d) * 1e300 * 1e300 AS e FROM things
SELECT SUM(x) / SUM(d), ln(SUM(x)), sqrt(MIN(x)), MAX(x)::INTEGER, CASE WHEN COUNT(*) > 3 THEN 'many' ELSE 'few' END FROM things
SELECT OPTIONS (clip = 3) SUM(x) FROM things WHERE b
SELECT OPTIONS (bound = 'clip') SUM(d), COUNT(*) FROM things
SELECT OPTIONS (bound = 'clip') kind, AVG(x), COUNT(*) FROM things GROUP BY kind
SELECT OPTIONS (bound = 'clip') SUM(n), COUNT(*) FROM notes
SELECT OPTIONS (clip = 5) SUM(n) FROM notes
SELECT OPTIONS (max_rows = 2) b, SUM(n), COUNT(*) FROM notes JOIN things USING (id) GROUP BY b
SELECT OPTIONS (rho = 0.1) kind, COUNT(*), SUM(x), MEDIAN(d) FROM things GROUP BY kind
SELECT OPTIONS (rho = 0.1, bound = 'clip') kind, SUM(x) FROM things GROUP BY kind
SELECT OPTIONS (mechanism = 'permute_and_flip') MEDIAN(x), MEDIAN(n) FROM things JOIN notes USING (id)
SELECT OPTIONS (mechanism = 'rank_counts') quantile_disc(x, 0.1), MEDIAN(y), MEDIAN(n) FROM things JOIN notes USING (id)
SELECT OPTIONS (mechanism = 'rank_counts') kind, quantile_disc(d, [0.1, 0.5, 0.9]), quantile_cont(y, [0.1, 0.5, 0.9]) FROM things GROUP BY kind
SELECT OPTIONS (mechanism = 'rank_counts', epsilon = 1e-8) quantile_disc(day, 0.1), quantile_cont(x, [0.1, 0.5, 0.9]) FROM things
SELECT OPTIONS (mechanism = 'rank_counts', rho = 1e-8) quantile_disc(tiny, 0.1), quantile_cont(d, [0.1, 0.5, 0.9]) FROM things
SELECT OPTIONS (mechanism = 'smooth_sensitivity', epsilon = 0.5, delta = 1e-5) MEDIAN(x) FROM people
SELECT OPTIONS (mechanism = 'smooth_sensitivity', epsilon = 1, delta = 1e-5, max_rows=1) kind, MEDIAN(d) FROM things GROUP BY kind
SELECT OPTIONS (epsilon = 1e-8) COUNT(*), MEDIAN(x), SUM(y) FROM things
SELECT DISTINCT kind FROM things
SELECT DISTINCT tiny, b FROM things
SELECT MEDIAN(a.x) FROM things a JOIN things b ON a.x = b.x
SELECT COUNT(*) AS n FROM things UNION ALL SELECT COUNT(DISTINCT s) FROM notes
SELECT floor(x / 5) * 5 AS k, COUNT(*), SUM(d) FROM things GROUP BY k
SELECT floor(x / 5) * 5 AS k, b, COUNT(*) FROM things WHERE x <= 7 GROUP BY CUBE(k, b)
SELECT round(d, -1) AS k, COUNT(*) FROM things WHERE d > 15 OR d IS NULL GROUP BY ROLLUP(k)
SELECT CAST(x AS INTEGER) * 3 AS k, COUNT(*), COUNT(*) FILTER (WHERE x > 2 * 3) FROM things GROUP BY CUBE(k)
SELECT CASE WHEN huge < 3 THEN 'low' ELSE CAST(floor(huge / 1e6) AS VARCHAR) END AS k, COUNT(*) FROM things GROUP BY CUBE(k)
SELECT round(x / 10, 1) AS k, COUNT(*) * 1.0 / SUM(COUNT(*)) OVER () FROM things GROUP BY k
SELECT VAR_POP(a.x), STDDEV_SAMP(a.d) FROM things a JOIN things b ON a.x = b.x
SELECT CORR(a.x, b.d), REGR_SLOPE(a.huge, b.x) FROM things a JOIN things b ON a.kind = b.kind
-- # FLOATING
-- Answered with groups that are chosen, or rows that depend on noisy numbers: only columns and charges can be compared.
SELECT k.kind, COUNT(*) FROM things t JOIN kinds k ON t.kind = k.kind GROUP BY k.kind
SELECT s, COUNT(*) FROM things GROUP BY s
SELECT x, COUNT(*) FROM things GROUP BY x
SELECT seen, COUNT(*), SUM(x) FROM things GROUP BY seen
SELECT day + 1 AS tomorrow, COUNT(*) FROM things GROUP BY tomorrow
SELECT CAST(s AS DATE) AS t, COUNT(*) FROM things GROUP BY t
SELECT CAST(s AS TIMESTAMP) AS t, MEDIAN(x) FROM things GROUP BY t
SELECT s, kind, b, COUNT(*), MEDIAN(x) FROM things GROUP BY ALL
SELECT OPTIONS (max_groups = 1) s, COUNT(*) FROM notes GROUP BY s
SELECT OPTIONS (mechanism = 'gaussian_threshold', rho = 1, delta = 1e-5) d, AVG(x) FROM things GROUP BY d
SELECT word, n, COUNT(*) FROM people JOIN notes USING (id) GROUP BY word, n ORDER BY 3 DESC, word NULLS FIRST
SELECT DISTINCT word FROM people
SELECT kind, COUNT(*) AS c FROM things GROUP BY kind HAVING COUNT(*) > 2 ORDER BY c DESC LIMIT 2 OFFSET 1
SELECT kind, AVG(x) FROM things GROUP BY kind HAVING AVG(x) > 0 OR AVG(x) IS NULL
SELECT COUNT(*) FROM things WHERE x = (SELECT MAX(x) FROM things)
SELECT tiny, SUM(x) AS t FROM things GROUP BY tiny ORDER BY t NULLS FIRST LIMIT 3
SELECT AVG(m) FROM (SELECT kind, SUM(x) AS m FROM things GROUP BY kind) t
SELECT tiny, n, n / SUM(n) OVER () AS share, RANK() OVER (ORDER BY n) AS r FROM (SELECT tiny, COUNT(*) AS n FROM things GROUP BY tiny) t
SELECT s, n, LAG(n) OVER (ORDER BY s) AS before FROM (SELECT s, COUNT(*) AS n FROM things GROUP BY s) t
SELECT MAX(n), STDDEV(n) FROM (SELECT tiny, COUNT(*) AS n FROM things GROUP BY tiny) t
-- # REFUSED
SELECT COUNT(*) FROM things WHERE x = 'NaN'
SELECT OPTIONS (clip = 3) SUM(x), SUM(d) FROM things
SELECT OPTIONS (delta = 1e-5) COUNT(*) FROM things
SELECT * FROM things
SELECT x FROM things
SELECT COUNT(*) FROM nowhere
SELECT COUNT(nothing) FROM things
SELECT SUM(s) FROM things
SELECT SUM(wide) FROM things
SELECT MEDIAN(seen) FROM things
SELECT error('x') FROM things
SELECT COUNT(*) FROM things WHERE CAST(s AS STRUCT(a INTEGER)) IS NULL
SELECT COUNT(*) FROM things WHERE regexp_matches(s, '(')
SELECT COUNT(*) FROM things WHERE regexp_matches(s, s)
SELECT COUNT(*) FROM things WHERE regexp_extract(s, '^\C') = 'a'
SELECT COUNT(*) FROM things WHERE regexp_extract(s, 'a|(\C)', 1) = 'a'
SELECT COUNT(*) FROM things WHERE regexp_replace(s, '\B', 'x') = 'a'
SELECT COUNT(*) FROM things WHERE regexp_replace(s, '\C', '', 'g') = ''
SELECT COUNT(*) FROM things WHERE x IN (SELECT x FROM things)
SELECT COUNT(*) FROM things WHERE x NOT IN (SELECT x FROM things)
SELECT COUNT(*) FROM things a LEFT JOIN things b ON a.x = b.x
SELECT COUNT(*) FROM things a ANTI JOIN things b ON a.day < b.day
SELECT COUNT(*) FROM (SELECT s FROM things EXCEPT SELECT s FROM notes) t
SELECT OPTIONS (bound = 'frequency', max_frequency = 2) COUNT(*) FROM things a JOIN things b ON a.x < b.x
SELECT id, COUNT(*) FROM things GROUP BY id
SELECT SUM(x) OVER () FROM things
SELECT COUNT(*) FROM (SELECT RANK() OVER (ORDER BY x) AS r FROM things) t WHERE r < 3
SELECT COUNT(*) FROM (SELECT NTILE(n) OVER (PARTITION BY id) AS r FROM notes) t
SELECT COUNT(*) FROM things LIMIT -1
SELECT COUNT(*) FROM (SELECT x FROM things LIMIT 3) t
SELECT OPTIONS (epsilon = 0) COUNT(*) FROM things
SELECT OPTIONS (epsilom = 1) COUNT(*) FROM things
SELECT OPTIONS (epsilon = 1000, delta = 1e-3) COUNT(*) FROM things WHERE x = 3
SELECT OPTIONS (bound = 'clip') SUM(y) FROM things JOIN notes USING (id)
SELECT OPTIONS (mechanism = 'smooth_sensitivity') kind, MEDIAN(x) FROM things GROUP BY kind
SELECT OPTIONS (delta = 1e-12, epsilon = 1e-9) s, COUNT(*) FROM things GROUP BY s
SELECT random() FROM things
SELECT COUNT(*) FROM things; DROP TABLE things
SELECT COUNT(*) FROM 'things.csv'
UPDATE things SET x = 0
