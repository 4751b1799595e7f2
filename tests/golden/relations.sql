-- Subqueries, one a line; see test_relations_equal_duckdb.py.
SELECT * FROM people
SELECT p.*, 1 AS one FROM people AS p
SELECT person_id, age AS a, income AS "the income" FROM people
FROM people SELECT sex, age
SELECT age + 1, age - 2 * 3, -age, age * age, age / 7, age // 7, age % 7, age % 0, age // 0 FROM people
SELECT -7 // 2, -7 % 2, 7 // -2, 7 % -2, 5 / 2, 1 + 2 * 3, (1 + 2) * 3, 2 - 3 - 4, 100 // 7 // 2 FROM people
SELECT cost * 2, cost + 0.5, cost / 4, -cost, abs(cost), sign(cost), cost % 7 FROM visits
SELECT income + age, weight - age, weight * 0.5, income > weight FROM people
SELECT floor(weight), ceil(weight), ceiling(weight), round(weight), round(weight, 2), trunc(weight), round(age), floor(age) FROM people
SELECT sqrt(abs(weight)), cbrt(weight), exp(age / 100), ln(weight), log(weight), log10(weight), log2(weight), pow(weight, 2) FROM people
SELECT log(2, weight), log(10, weight), log(3, weight), power(age, 3), age ** 2, pow(2.5, 2) FROM people
SELECT sin(age), cos(age), tan(age), atan(weight), radians(age), degrees(age) FROM people
SELECT isnan(income), isinf(income), isfinite(weight) FROM people
SELECT lower(sex), upper(nickname), length(nickname), reverse(nickname), trim(' ' || nickname || ' '), ltrim(nickname), rtrim(nickname) FROM people
SELECT substring(nickname, 1, 1), substr(nickname, 2), left(nickname, 1), right(nickname, 1), left(nickname, -1) FROM people
SELECT contains(nickname, 'o'), starts_with(nickname, 'a'), ends_with(nickname, 'i'), prefix(nickname, 'c'), suffix(nickname, 'y') FROM people
SELECT strpos(nickname, 'o'), position('i' IN nickname), instr(nickname, '''') FROM people
SELECT nickname LIKE '_o%', nickname ILIKE 'A%', nickname NOT LIKE '%y', nickname NOT ILIKE 'B%', nickname ~~ '%''%', nickname !~~ 'x' FROM people
SELECT regexp_matches(nickname, '^[a-c]'), regexp_full_match(nickname, '[a-z]+'), nickname ~ 'al|bo' FROM people
SELECT sex || '-' || nickname, sex || age, concat(sex, '-', nickname), concat(sex, age, active), concat(NULL, 'x') FROM people
SELECT coalesce(sex, nickname, '?'), coalesce(age, 0), ifnull(income, 0), nullif(sex, 'f'), nullif(age, 30) FROM people
SELECT least(age, 40), greatest(age, 40, 50), least(weight, age), greatest(sex, nickname), least(NULL, age) FROM people
SELECT CASE WHEN age < 30 THEN 'young' WHEN age < 60 THEN 'middle' ELSE 'old' END, CASE sex WHEN 'f' THEN 1 WHEN 'm' THEN 2 END FROM people
SELECT CASE WHEN sex IS NULL THEN NULL WHEN active THEN age ELSE 0.5 END, if(active, age, 0), CASE WHEN income > 0 THEN income END FROM people
SELECT CASE WHEN active THEN born ELSE '2000-01-01' END, CASE nickname WHEN '' THEN 'empty' ELSE nickname END FROM people
SELECT sex = 'f', sex <> 'f', sex != 'f', age < 30, age <= 30, age > 30, age >= 30, sex == 'm', active = TRUE, active FROM people
SELECT sex IS NULL, sex IS NOT NULL, active IS TRUE, active IS FALSE, active IS NOT TRUE, active IS NOT FALSE, active IS UNKNOWN FROM people
SELECT sex IS DISTINCT FROM 'f', sex IS NOT DISTINCT FROM 'f', income IS DISTINCT FROM weight, sex IS NOT DISTINCT FROM NULL FROM people
SELECT active AND sex = 'f', active OR sex = 'f', NOT active, NOT (sex = 'f' OR active), active AND NULL, active OR NULL FROM people
SELECT age BETWEEN 20 AND 40, age NOT BETWEEN 20 AND 40, weight BETWEEN age AND 100, sex BETWEEN 'a' AND 'g', age BETWEEN NULL AND 40 FROM people
SELECT sex IN ('f', 'x'), sex NOT IN ('f'), age IN (1, 2, 30), sex IN ('f', NULL), sex NOT IN ('f', NULL), age IN ('30', 2.5) FROM people
SELECT CAST(age AS DOUBLE), CAST(age AS VARCHAR), age::VARCHAR, CAST(weight AS INTEGER), TRY_CAST(nickname AS INTEGER), CAST(active AS INTEGER) FROM people
SELECT CAST(weight AS BIGINT), CAST(weight AS DECIMAL(10, 1)), CAST(age AS BOOLEAN), CAST(born AS TIMESTAMP), CAST(sex AS VARCHAR) FROM people
SELECT CAST('12' AS INTEGER), '3.5'::DOUBLE, DATE '2020-02-29', TIMESTAMP '2020-02-29 12:30:00', CAST(NULL AS INTEGER), CAST('true' AS BOOLEAN) FROM people
SELECT year(born), month(born), day(born), quarter(born), week(born), dayofweek(born), weekday(born), isodow(born), dayofyear(born) FROM people
SELECT extract(year FROM seen), extract(dow FROM seen), date_part('hour', seen), hour(seen), minute(seen), second(seen), extract(doy FROM seen) FROM visits
SELECT date_trunc('month', born), date_trunc('year', seen), date_trunc('hour', seen), date_trunc('week', born), date_trunc('day', seen) FROM people JOIN visits USING (person_id)
SELECT date_diff('day', born, DATE '2020-01-01'), date_diff('month', born, '2020-01-01'), datediff('year', born, seen) FROM people JOIN visits USING (person_id)
SELECT born + 7, born - 7, 7 + born, born + INTERVAL 1 DAY, born - INTERVAL 2 MONTH, born + INTERVAL 3 YEAR, seen + INTERVAL 2 WEEK FROM people JOIN visits USING (person_id)
SELECT born - DATE '1990-01-01', born > '1990-01-01', born = DATE '1990-1-1', seen < '2020-06-01', seen >= TIMESTAMP '2019-01-01 10:00:00', born < seen FROM people JOIN visits USING (person_id)
SELECT * FROM people WHERE age > 30
SELECT * FROM people WHERE age > 30 AND (sex = 'f' OR active) AND NOT nickname = 'al'
SELECT * FROM people WHERE active
SELECT * FROM people WHERE NOT active OR active IS NULL
SELECT * FROM people WHERE sex = NULL
SELECT * FROM people WHERE TRUE
SELECT * FROM visits WHERE clinic IN ('a', 'b') AND year BETWEEN 2018 AND 2020
SELECT person_id, cost FROM visits WHERE cost > 100 AND note IS NOT NULL
SELECT age + 1 AS older, older * 2 AS twice FROM people WHERE older > 50
SELECT p.person_id, v.cost FROM people p JOIN visits v ON p.person_id = v.person_id
SELECT p.person_id, v.cost FROM people p, visits v WHERE p.person_id = v.person_id AND v.cost > p.age
SELECT * FROM people JOIN visits USING (person_id)
SELECT p.*, v.* FROM people p INNER JOIN visits v USING (person_id)
SELECT * FROM people p LEFT JOIN visits v USING (person_id)
SELECT p.person_id, v.visit_id, v.note FROM people p LEFT OUTER JOIN visits v ON p.person_id = v.person_id AND v.cost > 300
SELECT person_id, visit_id, age FROM visits RIGHT JOIN people USING (person_id)
SELECT * FROM visits v RIGHT JOIN people p ON v.person_id = p.person_id
SELECT * FROM visits LEFT JOIN clinics USING (clinic)
SELECT v.clinic, clinic, c.clinic, city FROM visits v LEFT JOIN clinics c USING (clinic)
SELECT v.clinic, clinic, c.clinic, city FROM clinics c RIGHT JOIN visits v USING (clinic)
SELECT * FROM clinics RIGHT JOIN visits USING (clinic)
SELECT * FROM visits JOIN clinics c ON visits.clinic = c.clinic WHERE c.city = 'Oslo'
SELECT * FROM visits, clinics WHERE visits.clinic = clinics.clinic AND beds > 5
SELECT * FROM visits CROSS JOIN clinics
SELECT v.visit_id, c.clinic FROM visits v JOIN clinics c ON v.cost > c.beds
SELECT v.visit_id, c.city FROM visits v LEFT JOIN clinics c ON v.clinic = c.clinic AND c.beds > 5 AND v.year = 2019
SELECT * FROM people p JOIN visits v USING (person_id) JOIN scores s USING (person_id)
SELECT p.age, v.cost, s.points FROM people p JOIN visits v ON v.person_id = p.person_id LEFT JOIN scores s ON s.person_id = v.person_id
SELECT * FROM (people JOIN visits USING (person_id)) JOIN clinics USING (clinic)
SELECT a.person_id, b.visit_id FROM visits a JOIN visits b ON a.person_id = b.person_id AND a.visit_id < b.visit_id
SELECT a.clinic, b.clinic FROM clinics a CROSS JOIN clinics b WHERE a.city = b.city
SELECT x + 1, y FROM (SELECT age AS x, sex AS y FROM people) t WHERE x > 20
SELECT x, y FROM (SELECT age, sex, active FROM people) AS t(x, y)
SELECT age, age_1, "t"."age_2" FROM (SELECT age, age, age + 1 AS age FROM people) AS t
SELECT z FROM (SELECT y AS z FROM (SELECT x AS y FROM (SELECT age AS x FROM people) a) b) c
WITH young AS (SELECT * FROM people WHERE age < 50) SELECT sex, age FROM young
WITH a AS (SELECT person_id, age FROM people), b(person_id, old) AS (SELECT person_id, age > 50 FROM a) SELECT * FROM a JOIN b USING (person_id)
WITH people AS (SELECT * FROM people WHERE active) SELECT * FROM people
SELECT * FROM (WITH t AS (SELECT 1 AS x FROM visits) SELECT x FROM t) u
SELECT age FROM people UNION ALL SELECT points FROM scores
SELECT person_id, age AS value FROM people UNION ALL SELECT person_id, cost FROM visits UNION ALL SELECT person_id, points FROM scores
SELECT born FROM people UNION ALL SELECT seen FROM visits
SELECT sex, NULL AS note FROM people UNION ALL SELECT NULL, note FROM visits
SELECT clinic FROM clinics UNION ALL SELECT clinic FROM visits
SELECT * FROM (SELECT 1 AS x UNION ALL SELECT 2) t
SELECT DISTINCT sex FROM people
SELECT DISTINCT person_id, clinic FROM visits
SELECT DISTINCT year, note FROM visits WHERE cost > 50
SELECT DISTINCT active AND sex = 'f' FROM people
SELECT person_id, count(*), count(cost), count(DISTINCT clinic), sum(year), min(cost), max(cost) FROM visits GROUP BY person_id
SELECT person_id, sum(cost), avg(cost), avg(year), sum(cost) / count(*) FROM visits GROUP BY person_id
SELECT person_id, year, count(*) AS n FROM visits GROUP BY person_id, year HAVING n > 1
SELECT person_id, clinic, max(seen::DATE) AS last FROM visits GROUP BY ALL
SELECT person_id AS p, clinic = 'a' AS a, count(*) FROM visits GROUP BY 1, 2
SELECT person_id, count(*) FILTER (WHERE year = 2019), sum(cost) FILTER (WHERE clinic = 'a'), count_if(clinic IS NULL) FROM visits GROUP BY person_id
SELECT p.person_id, p.sex, count(v.visit_id), max(v.cost) FROM people p LEFT JOIN visits v USING (person_id) GROUP BY p.person_id, p.sex
SELECT person_id, max(cost) - min(cost) AS spread FROM visits GROUP BY person_id HAVING count(*) > 1 AND max(cost) > 10
SELECT person_id, count(*) + 1, CASE WHEN count(*) > 2 THEN 'often' ELSE 'seldom' END FROM visits GROUP BY person_id
SELECT visit_id, count(*) FROM visits GROUP BY visit_id
SELECT person_id, -max(year), abs(min(year)), max(year) // 2, max(note), min(clinic), max(seen), min(note = 'ill') FROM visits GROUP BY person_id
SELECT city, count(*), sum(beds), avg(beds), min(city) IS NULL, max(clinic) FROM clinics GROUP BY city
SELECT count(*), max(beds) FROM clinics
SELECT n, count(*) AS people FROM (SELECT person_id, count(*) AS n FROM visits GROUP BY person_id) t GROUP BY n, person_id
SELECT * FROM visits WHERE clinic IN (SELECT clinic FROM clinics WHERE city = 'Oslo')
SELECT * FROM visits WHERE clinic NOT IN (SELECT clinic FROM clinics WHERE city = 'Oslo')
SELECT clinic IN (SELECT city FROM clinics), clinic NOT IN (SELECT city FROM clinics) FROM visits
SELECT note IN (SELECT city FROM clinics WHERE beds > 100), note NOT IN (SELECT city FROM clinics WHERE beds > 100) FROM visits
SELECT visit_id FROM visits WHERE cost IN (SELECT beds FROM clinics) OR year - 2009 IN (SELECT beds FROM clinics)
SELECT * FROM people WHERE person_id IN (SELECT person_id FROM visits)
SELECT * FROM people WHERE person_id NOT IN (SELECT person_id FROM visits WHERE cost > 100)
SELECT * FROM people p WHERE EXISTS (SELECT 1 FROM visits v WHERE v.person_id = p.person_id AND v.year = 2019)
SELECT * FROM people p WHERE NOT EXISTS (SELECT * FROM visits v WHERE v.person_id = p.person_id)
SELECT p.age FROM people p WHERE EXISTS (SELECT 1 FROM visits v WHERE v.person_id = p.person_id AND v.cost = p.age) OR p.active
SELECT * FROM visits v WHERE EXISTS (SELECT 1 FROM clinics c WHERE c.clinic = v.clinic AND c.beds > 5)
SELECT visit_id, NOT EXISTS (SELECT 1 FROM clinics WHERE clinics.clinic = visits.clinic) FROM visits
SELECT * FROM visits WHERE EXISTS (SELECT 1 FROM clinics WHERE city = 'Oslo') AND NOT EXISTS (FROM clinics WHERE city = 'Bern')
SELECT * FROM visits v WHERE EXISTS (SELECT 1 FROM visits w WHERE w.person_id = v.person_id AND w.year = v.year AND w.clinic = 'a')
SELECT v.* FROM people p, visits v WHERE p.person_id = v.person_id AND v.clinic IN (SELECT clinic FROM clinics) AND p.age > 20
SELECT * FROM (VALUES (1, 'a', NULL), (2, 'b', 2.5)) AS t(x, y, z)
SELECT col0 + 1, col1 FROM (VALUES (1, DATE '2020-01-01'), (NULL, '2020-02-02'))
SELECT visits.clinic, w FROM visits JOIN (VALUES ('a', 1), ('b', 2), (NULL, 3)) AS weights(clinic, w) USING (clinic)
SELECT bonus * points FROM scores, (VALUES (10)) AS b(bonus)
SELECT 1 AS x, 'a' AS y, NULL AS z
SELECT person_id FROM people WHERE age > (3 + 4) * 5 AND 'x' || 'y' = 'xy' AND 3 > 2.5 AND 1 = 1.0
SELECT * FROM people p FULL JOIN visits v ON p.person_id = v.person_id
SELECT * FROM people FULL JOIN visits USING (person_id)
SELECT * FROM people FULL OUTER JOIN visits USING (person_id) FULL JOIN scores USING (person_id)
SELECT person_id, people.person_id, visits.person_id, cost FROM people FULL JOIN visits USING (person_id) WHERE cost > 100 OR age > 50
SELECT p.person_id, c.city FROM people p FULL JOIN clinics c ON c.beds = p.age
SELECT c.clinic, v.visit_id FROM clinics c LEFT JOIN visits v ON c.clinic = v.clinic
SELECT c.clinic, v.visit_id FROM visits v RIGHT JOIN clinics c ON c.clinic = v.clinic AND v.year = 2020
SELECT clinic, visit_id, city FROM visits FULL JOIN clinics USING (clinic)
SELECT v.clinic, c.beds FROM visits v FULL JOIN clinics c ON v.year - 2000 < c.beds
SELECT * FROM visits NATURAL JOIN clinics
SELECT * FROM people NATURAL LEFT JOIN visits
SELECT * FROM visits NATURAL RIGHT JOIN people
SELECT * FROM visits NATURAL FULL JOIN people
SELECT * FROM people NATURAL JOIN visits NATURAL JOIN clinics
SELECT * FROM people p SEMI JOIN visits v ON p.person_id = v.person_id
SELECT * FROM people SEMI JOIN visits USING (person_id)
SELECT * FROM people ANTI JOIN visits USING (person_id)
SELECT * FROM visits v SEMI JOIN visits w ON v.clinic = w.clinic AND v.visit_id < w.visit_id
SELECT * FROM visits v ANTI JOIN visits w ON v.clinic = w.clinic AND v.visit_id < w.visit_id AND w.cost > 10
SELECT * FROM visits v ANTI JOIN clinics c ON v.clinic = c.clinic AND v.year > 2018
SELECT * FROM visits v SEMI JOIN clinics c ON v.clinic = c.clinic AND v.year > 2018 AND c.beds > 5
SELECT * FROM people ANTI JOIN clinics ON age < beds
SELECT * FROM people SEMI JOIN clinics ON TRUE
SELECT * FROM people NATURAL SEMI JOIN visits
SELECT * FROM people p SEMI JOIN visits v ON p.person_id = v.person_id JOIN scores s ON s.person_id = p.person_id
SELECT p.person_id FROM people p WHERE EXISTS (SELECT 1 FROM visits v WHERE v.person_id < p.person_id AND v.cost > p.age)
SELECT p.person_id FROM people p WHERE NOT EXISTS (SELECT 1 FROM visits v WHERE v.person_id = p.person_id AND v.year - 2000 > p.age)
SELECT p.person_id, EXISTS (SELECT 1 FROM clinics c WHERE c.beds < p.age) AS big FROM people p
SELECT p.person_id FROM people p WHERE EXISTS (SELECT 1 FROM visits v WHERE v.clinic = p.nickname OR v.year = p.age)
SELECT c.clinic FROM clinics c WHERE EXISTS (SELECT 1 FROM visits v WHERE v.clinic = c.clinic)
SELECT c.clinic FROM clinics c WHERE NOT EXISTS (SELECT 1 FROM visits v WHERE v.clinic = c.clinic AND v.cost > 200)
SELECT c.clinic, c.clinic IN (SELECT 'a' FROM visits WHERE cost > 0) AS known FROM clinics c WHERE c.clinic IS NOT NULL
SELECT person_id FROM people WHERE EXISTS (SELECT 1 FROM visits)
SELECT person_id FROM people WHERE NOT EXISTS (SELECT 1 FROM visits WHERE cost > 100000)
SELECT visit_id FROM visits WHERE clinic IN (SELECT nickname FROM people)
SELECT visit_id FROM visits WHERE clinic IN (SELECT clinic FROM visits WHERE cost > 400) AND year IN (SELECT 2018 + points FROM scores)
SELECT visit_id FROM visits WHERE cost > 600 OR (clinic IN (SELECT clinic FROM visits WHERE cost > 400) AND year > 2018)
SELECT visit_id FROM visits WHERE year NOT IN (SELECT age + 1960 FROM people WHERE age IS NOT NULL) AND year IS NOT NULL
SELECT visit_id, year IS NULL OR year NOT IN (SELECT age + 1960 FROM people) FROM visits WHERE year IS NOT NULL
SELECT sex FROM people UNION SELECT clinic FROM visits
SELECT age FROM people UNION SELECT year FROM visits UNION SELECT 1
SELECT income FROM people UNION SELECT weight FROM people
SELECT clinic FROM visits INTERSECT SELECT clinic FROM clinics
SELECT clinic FROM visits EXCEPT SELECT clinic FROM clinics
SELECT clinic FROM clinics EXCEPT SELECT clinic FROM visits
SELECT clinic, year FROM visits INTERSECT ALL SELECT nickname, 2019 FROM people
SELECT clinic FROM visits INTERSECT ALL SELECT clinic FROM visits WHERE year > 2018
SELECT clinic FROM visits EXCEPT ALL SELECT clinic FROM visits WHERE year > 2018
SELECT person_id, clinic FROM visits EXCEPT SELECT person_id, nickname FROM people
SELECT person_id FROM people INTERSECT SELECT person_id FROM visits
SELECT person_id FROM people EXCEPT SELECT person_id FROM visits
SELECT age FROM people UNION SELECT year FROM visits INTERSECT SELECT 2019
SELECT age FROM people EXCEPT ALL SELECT points FROM scores UNION ALL SELECT year FROM visits
(SELECT clinic FROM visits UNION ALL SELECT nickname FROM people) INTERSECT SELECT clinic FROM clinics
SELECT income FROM people EXCEPT SELECT age FROM people
SELECT clinic, COUNT(*) AS n FROM visits GROUP BY clinic
SELECT clinic, COUNT(*), SUM(cost), AVG(cost), MIN(year), MAX(note), COUNT(DISTINCT person_id) FROM visits GROUP BY clinic
SELECT clinic, year, COUNT(*) AS n FROM visits GROUP BY clinic, year HAVING COUNT(*) > 1 AND MIN(cost) > 5
SELECT COUNT(*), AVG(age) FROM people
SELECT sex, n FROM (SELECT sex, age, COUNT(*) AS n FROM people GROUP BY sex, age) AS t WHERE n > 1
SELECT c.clinic, t.n FROM clinics c LEFT JOIN (SELECT clinic, COUNT(*) AS n FROM visits GROUP BY clinic) t ON t.clinic = c.clinic
SELECT visit_id, ROW_NUMBER() OVER (PARTITION BY person_id ORDER BY seen, visit_id) FROM visits
SELECT visit_id, ROW_NUMBER() OVER (PARTITION BY person_id ORDER BY cost DESC NULLS FIRST, visit_id DESC) AS n FROM visits
SELECT visit_id, RANK() OVER (PARTITION BY person_id ORDER BY year), DENSE_RANK() OVER (PARTITION BY person_id ORDER BY year DESC) FROM visits
SELECT visit_id, RANK() OVER (PARTITION BY person_id), ROW_NUMBER() OVER (PARTITION BY visit_id) FROM visits
SELECT visit_id, NTILE(2) OVER (PARTITION BY person_id ORDER BY visit_id), NTILE(5) OVER (PARTITION BY clinic, person_id ORDER BY visit_id) FROM visits
SELECT visit_id, cost - LAG(cost) OVER (PARTITION BY person_id ORDER BY visit_id) AS change FROM visits
SELECT LAG(cost, 2) OVER w, LEAD(note) OVER w, LAG(year, 1, 1900) OVER w, LEAD(clinic, 1, note) OVER w, LAG(cost, 0) OVER w FROM visits WINDOW w AS (PARTITION BY person_id ORDER BY visit_id DESC)
SELECT visit_id, date_diff('day', LAG(seen) OVER (PARTITION BY person_id ORDER BY visit_id), seen) AS gap FROM visits
SELECT FIRST_VALUE(clinic) OVER w, LAST_VALUE(clinic) OVER w, FIRST_VALUE(cost) OVER (w ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING) FROM visits WINDOW w AS (PARTITION BY person_id ORDER BY visit_id)
SELECT visit_id, LAST_VALUE(note) OVER (PARTITION BY person_id ORDER BY visit_id ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING) FROM visits
SELECT visit_id, FIRST_VALUE(visit_id) OVER (PARTITION BY person_id ORDER BY visit_id ROWS BETWEEN 2 FOLLOWING AND 3 FOLLOWING) FROM visits
SELECT visit_id, LAST_VALUE(year) OVER (PARTITION BY person_id ORDER BY year), FIRST_VALUE(year) OVER (PARTITION BY person_id ORDER BY year DESC RANGE BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING) FROM visits
SELECT visit_id, COUNT(*) OVER (PARTITION BY person_id), COUNT(cost) OVER (PARTITION BY person_id), MAX(seen) OVER (PARTITION BY person_id) FROM visits
SELECT visit_id, SUM(cost) OVER (PARTITION BY person_id ORDER BY visit_id) AS running, SUM(year) OVER (PARTITION BY person_id ORDER BY year) AS peers FROM visits
SELECT visit_id, AVG(cost) OVER (PARTITION BY person_id ORDER BY visit_id ROWS 1 PRECEDING), MIN(clinic) OVER (PARTITION BY person_id ORDER BY visit_id ROWS BETWEEN 1 FOLLOWING AND 2 FOLLOWING) FROM visits
SELECT visit_id, COUNT(*) FILTER (WHERE cost > 100) OVER (PARTITION BY person_id ORDER BY visit_id), SUM(cost) FILTER (WHERE note = 'ill') OVER (PARTITION BY person_id) FROM visits
SELECT COUNT(DISTINCT clinic) OVER (PARTITION BY person_id ORDER BY visit_id), AVG(year) OVER (PARTITION BY person_id RANGE BETWEEN CURRENT ROW AND CURRENT ROW) FROM visits
SELECT MAX(points) OVER (PARTITION BY person_id), COUNT(*) OVER (PARTITION BY person_id ORDER BY points), DENSE_RANK() OVER (PARTITION BY person_id ORDER BY points DESC) FROM scores
SELECT ROW_NUMBER() OVER (PARTITION BY person_id ORDER BY points) AS n, SUM(points) OVER (PARTITION BY person_id ORDER BY points ROWS UNBOUNDED PRECEDING) AS total FROM scores
SELECT * FROM visits QUALIFY ROW_NUMBER() OVER (PARTITION BY person_id ORDER BY cost DESC, visit_id) = 1
SELECT visit_id, cost FROM visits QUALIFY ROW_NUMBER() OVER (PARTITION BY person_id ORDER BY visit_id) <= 2 AND cost > 50
SELECT visit_id, ROW_NUMBER() OVER w AS n, LAG(cost) OVER w AS before FROM visits WINDOW w AS (PARTITION BY person_id ORDER BY visit_id) QUALIFY n = 2
SELECT visit_id, SUM(cost) OVER (PARTITION BY person_id) AS total FROM visits QUALIFY total > 300 OR COUNT(*) OVER (PARTITION BY person_id) = 1
SELECT visit_id FROM visits QUALIFY RANK() OVER (PARTITION BY person_id ORDER BY year DESC) <= 1
SELECT DISTINCT person_id, COUNT(*) OVER (PARTITION BY person_id) AS n FROM visits
SELECT visit_id, ROW_NUMBER() OVER (PARTITION BY clinic ORDER BY visit_id) AS n FROM visits QUALIFY n <= 2
SELECT clinic, n FROM (SELECT clinic, visit_id, ROW_NUMBER() OVER (PARTITION BY clinic ORDER BY cost DESC, visit_id) AS n FROM visits) AS t WHERE n BETWEEN 1 AND 3 AND clinic IS NOT NULL
SELECT clinic, SUM(year) OVER (PARTITION BY clinic) AS s FROM (SELECT clinic, year FROM visits QUALIFY ROW_NUMBER() OVER (PARTITION BY clinic ORDER BY visit_id DESC) <= 2) AS t
SELECT visit_id, LAG(visit_id) OVER (ORDER BY visit_id), AVG(year) OVER (ORDER BY visit_id ROWS BETWEEN 2 PRECEDING AND 2 FOLLOWING) FROM visits
SELECT p.sex, v.visit_id, ROW_NUMBER() OVER (PARTITION BY p.person_id ORDER BY v.visit_id) AS n FROM people p JOIN visits v USING (person_id) WHERE p.age > 20
SELECT p.person_id, COUNT(v.visit_id) OVER (PARTITION BY p.person_id) FROM people p LEFT JOIN visits v ON p.person_id = v.person_id AND v.cost > 100
SELECT visit_id, COUNT(*) OVER (PARTITION BY year(seen), person_id ORDER BY month(seen)), MAX(cost * 2) OVER (PARTITION BY person_id, clinic IS NULL) FROM visits
SELECT clinic, RANK() OVER (ORDER BY beds DESC), SUM(beds) OVER (ORDER BY clinic), city FROM clinics QUALIFY ROW_NUMBER() OVER (PARTITION BY city ORDER BY beds) = 1
SELECT person_id, n, ROW_NUMBER() OVER (PARTITION BY person_id ORDER BY year) AS k FROM (SELECT person_id, year, COUNT(*) AS n FROM visits GROUP BY person_id, year) AS t
SELECT visit_id FROM visits v WHERE visit_id IN (SELECT visit_id FROM visits QUALIFY ROW_NUMBER() OVER (PARTITION BY person_id ORDER BY visit_id) = 1)
WITH firsts AS (SELECT * FROM visits QUALIFY ROW_NUMBER() OVER (PARTITION BY person_id ORDER BY visit_id) = 1) SELECT p.sex, f.cost FROM people p JOIN firsts f ON f.person_id = p.person_id
SELECT weight, ROW_NUMBER() OVER (PARTITION BY person_id ORDER BY income) AS n, LAST_VALUE(income) OVER (PARTITION BY person_id ORDER BY weight) FROM people
SELECT visit_id, SUM(cost) OVER (w ORDER BY visit_id) AS s, COUNT(*) OVER W AS n FROM visits WINDOW w AS (PARTITION BY person_id), x AS (w ORDER BY cost)
SELECT person_id, MEDIAN(age) AS m FROM people GROUP BY person_id
SELECT person_id, MEDIAN(CAST(cost AS DOUBLE)) AS m, MEDIAN(year), COUNT(*) FROM visits GROUP BY person_id
SELECT person_id, year, MEDIAN(visit_id) FILTER (WHERE cost > 100) AS m FROM visits GROUP BY person_id, year HAVING MEDIAN(visit_id) > 2
SELECT person_id, QUANTILE_CONT(LEAST(GREATEST(CAST(cost AS DOUBLE), 0), 500), 0.3) AS a, QUANTILE_CONT(visit_id % 5, 0.9) AS b FROM visits GROUP BY person_id
SELECT person_id, QUANTILE_DISC(cost, 0.3) AS a, QUANTILE_DISC(cost, 0) AS b, QUANTILE_DISC(cost, 1) AS c, QUANTILE_DISC(year, 0.5) AS d FROM visits GROUP BY person_id
SELECT person_id, ARG_MAX(clinic, visit_id) AS a, MIN_BY(clinic, visit_id) AS b, ARG_MIN(cost, visit_id) FILTER (WHERE year > 2018) AS c FROM visits GROUP BY person_id
SELECT person_id, ARG_MAX(cost > 100, visit_id) AS a, MAX_BY(visit_id, visit_id) AS b FROM visits GROUP BY person_id, clinic
SELECT p.person_id, ANY_VALUE(p.sex) AS s, MEDIAN(v.visit_id) AS m, ARG_MAX(v.note, v.visit_id) AS n FROM people p LEFT JOIN visits v ON v.person_id = p.person_id GROUP BY p.person_id
SELECT person_id FROM people p WHERE (SELECT MEDIAN(v.visit_id) FROM visits v WHERE v.person_id = p.person_id) > 5
SELECT city, MEDIAN(beds) AS m, ARG_MAX(clinic, beds) AS c FROM clinics GROUP BY city
SELECT visit_id, PERCENT_RANK() OVER (PARTITION BY person_id ORDER BY year) AS a, CUME_DIST() OVER (PARTITION BY person_id ORDER BY year DESC) AS b FROM visits
SELECT visit_id, PERCENT_RANK() OVER w AS a, CUME_DIST() OVER w AS b FROM visits WINDOW w AS (PARTITION BY person_id)
SELECT visit_id, NTH_VALUE(cost, 2) OVER (PARTITION BY person_id ORDER BY visit_id) AS a, NTH_VALUE(clinic, 9) OVER (PARTITION BY person_id ORDER BY visit_id) AS b FROM visits
SELECT visit_id, NTH_VALUE(year, 2) OVER (w ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING) AS a, NTH_VALUE(cost > 100, 1) OVER (w ROWS UNBOUNDED PRECEDING) AS b FROM visits WINDOW w AS (PARTITION BY person_id ORDER BY visit_id)
SELECT clinic, PERCENT_RANK() OVER (ORDER BY beds) AS r, NTH_VALUE(clinic, 2) OVER (ORDER BY clinic) AS n FROM clinics
SELECT person_id, age > ANY (SELECT beds FROM clinics) AS a, age > ALL (SELECT beds FROM clinics) AS b, age <> ANY (SELECT beds FROM clinics WHERE beds < 8) AS c FROM people
SELECT person_id, age >= ALL (SELECT beds FROM clinics WHERE beds > 99) AS a, NOT income / 1000 < ANY (SELECT beds FROM clinics) AS b FROM people
SELECT person_id, age < ANY ([20, NULL]) AS a, age <= ALL ([50, 60]) AS b, household_id = ALL ([1, NULL]) AS c, household_id <> ANY ([1, 2]) AS d FROM people
SELECT person_id, p.age > ANY (SELECT v.cost FROM visits v WHERE v.person_id = p.person_id) AS a, p.age < ALL (SELECT v.cost FROM visits v WHERE v.person_id = p.person_id AND v.year > 2018) AS b FROM people p
SELECT person_id FROM people WHERE age > ANY (SELECT MAX(beds) FROM clinics GROUP BY city)
SELECT person_id, EXTRACT(YEAR FROM age(DATE '2020-12-31', born)) AS a, date_part('year', age(DATE '2020-02-28', born)) AS b, year(age(born, DATE '1999-02-28')) AS c, year(age(DATE '2000-02-29', born)) AS d FROM people
SELECT visit_id, year(age(CAST(seen AS DATE), born)) AS a, year(age(TIMESTAMP '2021-06-30 12:00:00', seen)) AS b FROM people JOIN visits USING (person_id)
SELECT person_id, split_part(nickname, 'y', 1) AS a, split_part(nickname, '''', -1) AS b, split_part(nickname, 'o', 7) AS c FROM people
SELECT j.sex, j.cost, j.person_id FROM (people JOIN visits USING (person_id)) AS j WHERE j.age > 20
SELECT a.person_id, x FROM people a JOIN UNNEST([20, 50, NULL]) AS u(x) ON age > x
SELECT person_id, u.s, u.i FROM people JOIN UNNEST(['f', 'x', 'f']) WITH ORDINALITY AS u(s, i) ON sex = s
SELECT person_id, x, y FROM people, generate_series(10, 90, 40) AS g(x), range(-1, 3) AS r(y) WHERE age > x + y
SELECT visit_id, t FROM visits JOIN generate_series(TIMESTAMP '2018-01-01', TIMESTAMP '2021-12-01', INTERVAL 1 MONTH) AS g(t) ON date_trunc('month', seen) = t
SELECT visit_id, t FROM visits JOIN range(DATE '2019-01-01 10:00', DATE '2019-06-01', INTERVAL 1 MONTH) AS g(t) ON seen >= t
SELECT person_id FROM people WHERE age IN (SELECT UNNEST([20, 30, 40, 50])) OR sex IN (SELECT s FROM UNNEST(['f']) AS s)
