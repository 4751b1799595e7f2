-- Statements that are answered without noise and compared with DuckDB's own answers, over the world of dense.py.

SELECT COUNT(*) FROM people;
SELECT COUNT(*), COUNT(income), COUNT(sex), COUNT(1) FROM people;
SELECT COUNT(*) FROM visits;
SELECT COUNT(*), COUNT(points) FROM scores;
SELECT SUM(age) FROM people;
SELECT SUM(income) FROM people;
SELECT SUM(cost) FROM visits;
SELECT SUM(points) FROM scores;
SELECT AVG(age) FROM people;
SELECT AVG(income), COUNT(income) FROM people;
SELECT AVG(cost), SUM(cost), COUNT(cost), COUNT(*) FROM visits;
SELECT VAR_POP(age), VAR_SAMP(age), STDDEV_POP(age), STDDEV_SAMP(age) FROM people;
SELECT VARIANCE(cost), STDDEV(cost), AVG(cost), SUM(cost), COUNT(*) FROM visits;
SELECT VAR_SAMP(points), AVG(points), COUNT(points), COUNT(*) FROM scores;
SELECT SUM(weight), AVG(weight), COUNT(weight) FROM people;
SELECT STDDEV(weight) FROM people;
SELECT year, MODE(clinic), MODE() WITHIN GROUP (ORDER BY clinic) FROM visits WHERE year IN (2018, 2019) AND (year <> 2018 OR clinic = 'a')
    AND (year <> 2019 OR clinic = 'b') GROUP BY year;
SELECT MODE(sex) FILTER (WHERE sex <> 'm'), MODE(active) FILTER (WHERE NOT active), MODE(sex) = 'f' OR TRUE FROM people;
SELECT MODE(CASE WHEN age < 30 THEN 'young' WHEN age < 90 THEN 'old' ELSE 'oldest' END), MODE(age // 50), MODE(year(born) // 100) FROM people;
SELECT MODE(upper(sex)) FILTER (WHERE sex = 'f'), MODE(age > 5), MODE(age) FILTER (WHERE age = 61) FROM people WHERE sex IN ('f', 'm');
SELECT GEOMEAN(age + 1), GEOMETRIC_MEAN(abs(income) + 10) FROM people WHERE active;
SELECT year, GEOMEAN(LEAST(GREATEST(cost, 1), 400)), AVG(cost) FROM visits GROUP BY year;
SELECT GEOMEAN(LEAST(GREATEST(beds, 1), 100)) FROM clinics;
SELECT CORR(income, age), COVAR_POP(income, age), COVAR_SAMP(income, age), REGR_R2(income, age) FROM people;
SELECT REGR_SLOPE(income, age), REGR_INTERCEPT(income, age), REGR_SLOPE(age, income), REGR_INTERCEPT(age, income) FROM people;
SELECT REGR_COUNT(income, age), REGR_COUNT(age, income), REGR_AVGX(income, age), REGR_AVGY(income, age), REGR_AVGX(age, income)
    FROM people;
SELECT CORR(cost, year), COVAR_SAMP(cost, year), REGR_R2(year, cost), COUNT(cost), AVG(year) FROM visits;
SELECT sex, CORR(age, income), REGR_SLOPE(income, age), COUNT(*) FROM people GROUP BY sex;
SELECT CORR(income, age) FILTER (WHERE active), COVAR_POP(age * 2 + 1, income / 3) FILTER (WHERE age > 30) FROM people;
SELECT CORR(LEAST(GREATEST(weight, 0), 200), age), REGR_INTERCEPT(LEAST(GREATEST(weight, 0), 200), age) FROM people;
SELECT CORR(cost, points), COVAR_POP(points, cost), REGR_SLOPE(points, cost) FROM visits JOIN scores USING (person_id);
SELECT CORR(age, age), COVAR_POP(age, age), VAR_POP(age), REGR_SLOPE(age, age) FROM people;
SELECT CORR(beds, beds * beds), REGR_SLOPE(beds, beds), COVAR_POP(beds, 2 * beds), REGR_COUNT(beds, beds) FROM clinics;
SELECT SUM(weight * 2 + 1) FROM people;
SELECT COUNT(DISTINCT sex), COUNT(DISTINCT nickname), COUNT(DISTINCT age) FROM people;
SELECT COUNT(DISTINCT person_id), COUNT(DISTINCT clinic), COUNT(DISTINCT year), COUNT(DISTINCT cost) FROM visits;
SELECT COUNT(DISTINCT points) FROM scores;
SELECT COUNT(DISTINCT person_id) FROM scores;
SELECT COUNT(DISTINCT born), COUNT(DISTINCT active) FROM people;
SELECT SUM(age + 1), SUM(age * 2), SUM(-age), SUM(age * age), SUM(100 - age) FROM people;
SELECT AVG(age / 2), SUM(age // 10), SUM(age % 10) FROM people;
SELECT SUM(cost * 2), AVG(cost + year - 2000), SUM(cost / 4) FROM visits;
SELECT SUM(LEAST(GREATEST(weight, 50), 100)), AVG(abs(age - 50)) FROM people;
SELECT SUM(CASE WHEN active THEN 1 ELSE 0 END), SUM(CASE WHEN sex = 'f' THEN income END) FROM people;
SELECT COUNT_IF(cost > 100), COUNT_IF(clinic = 'a') FROM visits;
SELECT SUM(sqrt(age)), AVG(ln(age + 1)), SUM(round(cost)) FROM people JOIN visits USING (person_id);
SELECT COUNT(*) FILTER (WHERE sex = 'f'), COUNT(*) FILTER (WHERE age > 50), COUNT(*) FROM people;
SELECT SUM(cost) FILTER (WHERE year = 2020), AVG(cost) FILTER (WHERE clinic IN ('a', 'b')) FROM visits;
SELECT COUNT(income) FILTER (WHERE active), SUM(age) FILTER (WHERE active), AVG(age) FILTER (WHERE NOT active) FROM
    people;
SELECT COUNT(DISTINCT clinic) FILTER (WHERE cost > 250), COUNT(DISTINCT person_id) FILTER (WHERE year = 2019) FROM
    visits;
SELECT COUNT(*) FROM people WHERE age > 30;
SELECT COUNT(*) FROM people WHERE age BETWEEN 20 AND 40 AND sex = 'f';
SELECT COUNT(*) FROM people WHERE sex IS NULL OR nickname LIKE '%y';
SELECT COUNT(*) FROM people WHERE NOT (active AND age > 10);
SELECT COUNT(*) FROM people WHERE nickname IN ('al', '') AND born > DATE '1970-01-01';
SELECT COUNT(*) FROM people WHERE nickname NOT IN ('al', 'bo');
SELECT COUNT(*), SUM(cost) FROM visits WHERE extract(month FROM seen) IN (1, 2, 3) AND note = 'ill';
SELECT COUNT(*) FROM visits WHERE seen >= TIMESTAMP '2020-01-01 00:00:00' AND cost < 100.5;
SELECT AVG(income) FROM people WHERE income > 20000 AND regexp_matches(nickname, '^[a-c]');
SELECT sex, COUNT(*) FROM people GROUP BY sex;
SELECT sex, COUNT(*), AVG(age), SUM(income) FROM people GROUP BY sex ORDER BY sex;
SELECT sex, STDDEV(age), VAR_POP(age) FROM people GROUP BY sex;
SELECT active, sex, COUNT(*) FROM people GROUP BY active, sex;
SELECT active, sex, COUNT(*), SUM(age) FROM people GROUP BY ALL;
SELECT year, clinic, COUNT(*), SUM(cost), AVG(cost) FROM visits GROUP BY year, clinic;
SELECT year, COUNT(DISTINCT person_id), COUNT(DISTINCT clinic) FROM visits GROUP BY year;
SELECT clinic, SUM(cost) / COUNT(*), SUM(cost) FILTER (WHERE year = 2020) FROM visits GROUP BY clinic;
SELECT points, COUNT(*) FROM scores GROUP BY points;
SELECT age // 10 AS decade, COUNT(*) FROM people GROUP BY decade;
SELECT CASE WHEN age < 18 THEN 'child' WHEN age < 65 THEN 'adult' ELSE 'old' END AS life, COUNT(*), AVG(income) FROM
    people GROUP BY life;
SELECT upper(sex) AS s, COUNT(*) FROM people GROUP BY s;
SELECT coalesce(sex, 'none') AS s, COUNT(*) FROM people GROUP BY 1;
SELECT age > 50 AS old, active, COUNT(*) FROM people GROUP BY 1, 2;
SELECT year(born) // 30 AS span, COUNT(*) FROM people GROUP BY span;
SELECT extract(month FROM seen) AS m, COUNT(*) FROM visits GROUP BY m;
SELECT dayofweek(seen) AS d, COUNT(*), AVG(cost) FROM visits GROUP BY d ORDER BY d DESC;
SELECT nickname, COUNT(*) FROM people GROUP BY nickname;
SELECT nickname, sex, COUNT(*), AVG(age) FROM people GROUP BY nickname, sex;
SELECT note, COUNT(*), COUNT(DISTINCT person_id), SUM(cost) FROM visits GROUP BY note;
SELECT note, year, COUNT(*) FROM visits GROUP BY note, year;
SELECT lower(nickname) || '!' AS n, COUNT(*) FROM people GROUP BY n;
SELECT bracket, COUNT(*) FROM (SELECT person_id, age * 3 // 20 AS bracket FROM people) t GROUP BY bracket;
SELECT DISTINCT sex FROM people;
SELECT DISTINCT sex, active FROM people ORDER BY ALL;
SELECT DISTINCT nickname FROM people;
SELECT DISTINCT COUNT(*) FROM people;
SELECT DISTINCT COUNT(*) > 10 AS many FROM visits GROUP BY clinic;
SELECT sex, COUNT(*) AS n FROM people GROUP BY sex HAVING COUNT(*) > 50;
SELECT year, AVG(cost) AS m FROM visits GROUP BY year HAVING m > 240 AND COUNT(*) > 20;
SELECT clinic FROM visits GROUP BY clinic HAVING SUM(cost) > 1000 OR clinic IS NULL;
SELECT sex, COUNT(*) FROM people GROUP BY sex HAVING sex = 'f';
SELECT COUNT(*) FROM people HAVING COUNT(*) > 1000000;
SELECT year, COUNT(*) AS n FROM visits GROUP BY year ORDER BY n DESC, year;
SELECT year, COUNT(*) AS n FROM visits GROUP BY year ORDER BY n DESC, year LIMIT 2;
SELECT year, COUNT(*) AS n FROM visits GROUP BY year ORDER BY n, year LIMIT 2 OFFSET 1;
SELECT year, clinic, SUM(cost) AS t FROM visits GROUP BY year, clinic ORDER BY t DESC NULLS LAST, 1, 2 LIMIT 5;
SELECT year FROM visits GROUP BY year ORDER BY year NULLS FIRST;
SELECT year FROM visits GROUP BY year ORDER BY year DESC NULLS LAST OFFSET 2;
SELECT clinic, AVG(cost) FROM visits GROUP BY clinic ORDER BY 2 DESC;
SELECT clinic, COUNT(*) FROM visits GROUP BY clinic ORDER BY clinic;
SELECT clinic, COUNT(*) FROM visits GROUP BY clinic ORDER BY clinic DESC;
SELECT sex, active, COUNT(*) FROM people GROUP BY ALL ORDER BY ALL LIMIT 4;
SELECT sex, COUNT(*) FROM people GROUP BY sex ORDER BY COUNT(*) % 7, sex;
SELECT 2 * COUNT(*) + 1, COUNT(*) / 3, -COUNT(*), COUNT(*) - SUM(age) FROM people;
SELECT AVG(income) - AVG(age), SUM(age) / COUNT(age), SUM(income) / SUM(age) FROM people;
SELECT COUNT(*) FILTER (WHERE sex = 'f') * 100.0 / COUNT(*) AS percent FROM people;
SELECT CASE WHEN COUNT(*) > 10 THEN 'many' ELSE 'few' END, COUNT(*) > 10, round(AVG(age), 1) > 1 FROM people;
SELECT sqrt(VAR_POP(age)), abs(SUM(age)), ln(COUNT(*)), greatest(COUNT(*), SUM(age)), coalesce(AVG(age), 0) FROM people;
SELECT sex, CASE WHEN AVG(age) > 50 THEN 'older' ELSE 'younger' END AS kind, COUNT(*) * 2 FROM people GROUP BY sex;
SELECT 'people' AS what, 1 AS one, COUNT(*) FROM people;
SELECT sex || '?' AS s, COUNT(*) FROM people GROUP BY sex;
SELECT p.sex, COUNT(*) FROM people p JOIN visits v ON p.person_id = v.person_id GROUP BY p.sex;
SELECT sex, SUM(cost), AVG(age) FROM people JOIN visits USING (person_id) GROUP BY sex;
SELECT p.sex, v.year, COUNT(*), SUM(v.cost) FROM people p, visits v WHERE p.person_id = v.person_id GROUP BY 1, 2;
SELECT COUNT(*), COUNT(v.visit_id) FROM people p LEFT JOIN visits v ON p.person_id = v.person_id;
SELECT COUNT(*) FROM people p LEFT JOIN visits v ON p.person_id = v.person_id AND v.year = 2020 WHERE v.visit_id IS NULL;
SELECT COUNT(*) FROM visits v RIGHT JOIN people p USING (person_id);
SELECT COUNT(*), SUM(points), SUM(cost) FROM visits v JOIN scores s ON v.person_id = s.person_id;
SELECT COUNT(*) FROM people p JOIN visits v USING (person_id) JOIN scores s USING (person_id) WHERE p.age > 40;
SELECT COUNT(*) FROM visits a JOIN visits b ON a.person_id = b.person_id AND a.visit_id < b.visit_id;
SELECT COUNT(*) FROM visits a JOIN visits b ON a.person_id = b.person_id WHERE a.clinic = b.clinic AND a.year < b.year;
SELECT COUNT(*) FROM visits v JOIN clinics c ON v.clinic = c.clinic WHERE c.city = 'Oslo';
SELECT c.city, COUNT(*), SUM(v.cost) FROM visits v JOIN clinics c ON v.clinic = c.clinic GROUP BY c.city;
SELECT city, sex, COUNT(*) FROM visits JOIN people USING (person_id) JOIN clinics USING (clinic) GROUP BY city, sex;
SELECT SUM(beds), COUNT(*) FROM visits v JOIN (SELECT clinic, CASE WHEN beds > 15 THEN 1 ELSE 0 END AS beds FROM
    clinics) c USING (clinic);
SELECT COUNT(*) FROM visits v LEFT JOIN clinics c ON v.clinic = c.clinic AND c.beds > 5 WHERE c.clinic IS NULL;
SELECT COUNT(*) FROM people CROSS JOIN clinics;
SELECT COUNT(*) FROM people p JOIN (VALUES ('f', 1), ('m', 2)) AS t(code, n) ON p.sex = t.code WHERE t.n = 2;
SELECT COUNT(*) FROM visits WHERE clinic IN (SELECT clinic FROM clinics WHERE city = 'Oslo');
SELECT COUNT(*) FROM visits WHERE clinic NOT IN (SELECT clinic FROM clinics WHERE beds > 5);
SELECT COUNT(*) FROM visits WHERE clinic NOT IN (SELECT city FROM clinics);
SELECT COUNT(*) FROM people WHERE person_id IN (SELECT person_id FROM visits WHERE cost > 400);
SELECT COUNT(*) FROM people WHERE person_id NOT IN (SELECT person_id FROM visits);
SELECT sex, COUNT(*) FROM people p WHERE EXISTS (SELECT 1 FROM visits v WHERE v.person_id = p.person_id AND v.clinic =
    'a') GROUP BY sex;
SELECT COUNT(*) FROM people p WHERE NOT EXISTS (SELECT 1 FROM scores s WHERE s.person_id = p.person_id);
SELECT COUNT(*) FROM visits v WHERE EXISTS (SELECT 1 FROM clinics c WHERE c.clinic = v.clinic AND c.beds >= 10);
SELECT SUM(CASE WHEN person_id IN (SELECT person_id FROM scores WHERE points > 0) THEN age ELSE 0 END) FROM people;
SELECT AVG(n), COUNT(*), SUM(n) FROM (SELECT person_id, COUNT(*) AS n FROM visits GROUP BY person_id) t;
SELECT n, COUNT(*) FROM (SELECT person_id, COUNT(*) AS n FROM visits GROUP BY person_id) t GROUP BY n;
SELECT AVG(m), SUM(t) FROM (SELECT person_id, MAX(cost) AS m, SUM(cost) AS t FROM visits GROUP BY person_id) x;
SELECT AVG(a) FROM (SELECT person_id, AVG(cost) AS a FROM visits GROUP BY person_id) x;
SELECT COUNT(*) FROM (SELECT person_id FROM visits GROUP BY person_id HAVING COUNT(*) >= 2 AND SUM(cost) > 300) t;
SELECT sex, AVG(n) FROM people JOIN (SELECT person_id, COUNT(*) AS n FROM visits GROUP BY person_id) v USING (person_id)
    GROUP BY sex;
SELECT sex, SUM(coalesce(n, 0)) FROM people LEFT JOIN (SELECT person_id, COUNT(DISTINCT clinic) AS n FROM visits GROUP
    BY 1) v USING (person_id) GROUP BY sex;
SELECT clinic, COUNT(*), AVG(top) FROM (SELECT person_id, clinic, MAX(cost) AS top FROM visits GROUP BY person_id,
    clinic) t GROUP BY clinic;
SELECT AVG(most) FROM (SELECT person_id, MAX(n) AS most FROM (SELECT person_id, year, COUNT(*) AS n FROM visits GROUP BY
    1, 2) y GROUP BY 1) t;
SELECT COUNT(*) FROM (SELECT DISTINCT person_id, clinic FROM visits) t;
SELECT COUNT(*) FROM (SELECT DISTINCT clinic, year FROM visits) t;
SELECT clinic, COUNT(*) FROM (SELECT DISTINCT person_id, clinic FROM visits) t GROUP BY clinic;
WITH old AS (SELECT * FROM people WHERE age > 60) SELECT sex, COUNT(*) FROM old GROUP BY sex;
WITH a AS (SELECT person_id, COUNT(*) AS n FROM visits GROUP BY person_id), b AS (SELECT * FROM a WHERE n > 1) SELECT
    COUNT(*), SUM(n) FROM b;
WITH v AS (SELECT person_id, cost FROM visits WHERE cost > 50), p AS (SELECT person_id, sex FROM people) SELECT p.sex,
    SUM(v.cost) FROM v JOIN p ON v.person_id = p.person_id GROUP BY p.sex;
SELECT COUNT(*) FROM (SELECT person_id, clinic AS w FROM visits UNION ALL SELECT person_id, nickname FROM people) u
    WHERE w IN ('a', 'al');
SELECT SUM(x), COUNT(*) FROM (SELECT person_id, age AS x FROM people UNION ALL SELECT person_id, points FROM scores) u;
SELECT kind, COUNT(*) FROM (SELECT 'v' AS kind, person_id FROM visits UNION ALL SELECT 's', person_id FROM scores) u
    GROUP BY kind;
SELECT COUNT(*) FROM (SELECT * FROM (SELECT person_id, age FROM people WHERE age > 20) a WHERE age < 60) b;
SELECT city, COUNT(*), SUM(beds), AVG(beds), MAX(clinic) FROM (SELECT city, beds, beds AS clinic FROM clinics) c GROUP
    BY city;
SELECT COUNT(*), MEDIAN(beds), STDDEV(beds), MIN(beds) FROM clinics;
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (rho = 50) sex, COUNT(*), AVG(age), SUM(income) FROM people GROUP BY sex;
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (mechanism = 'laplace') COUNT(*), SUM(cost) FROM visits;
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (rho = 50, mechanism = 'gaussian') year, COUNT(*), SUM(cost) FROM visits GROUP
    BY year;
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (bound = 'clip') SUM(age), COUNT(*) FROM people;
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (bound = 'clip') AVG(income), COUNT(income), COUNT(*) FROM people;
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (bound = 'clip') AVG(cost) FILTER (WHERE year > 2018), AVG(cost * 2) FROM visits;
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (bound = 'clip') sex, AVG(income), SUM(weight) FROM people GROUP BY sex;
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (clip = 100000) SUM(cost) FROM visits;
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (bound = 'clip', clip = 1000) year, COUNT(*) FROM visits GROUP BY year;
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (max_rows = 9) SUM(points), COUNT(*) FROM scores;
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (max_rows = 3, max_groups = 3) note, COUNT(*) FROM visits GROUP BY note;
SELECT AVG(change), COUNT(change), SUM(change) FROM (SELECT cost - LAG(cost) OVER (PARTITION BY person_id ORDER BY visit_id) AS
    change FROM visits) AS t;
SELECT clinic, COUNT(*), AVG(cost) FROM (SELECT * FROM visits QUALIFY ROW_NUMBER() OVER (PARTITION BY person_id ORDER BY cost
    DESC NULLS LAST, visit_id) = 1) AS t GROUP BY clinic;
SELECT nth, COUNT(*), SUM(cost) FROM (SELECT cost, ROW_NUMBER() OVER (PARTITION BY person_id ORDER BY visit_id) AS nth FROM
    visits) AS t WHERE nth <= 2 GROUP BY nth;
SELECT COUNT(*) FROM (SELECT SUM(year) OVER (PARTITION BY person_id ORDER BY visit_id) AS total FROM visits) AS t WHERE total
    > 4040;
SELECT first, COUNT(*) FROM (SELECT DISTINCT person_id, FIRST_VALUE(clinic) OVER (PARTITION BY person_id ORDER BY visit_id) AS
    first FROM visits) AS t GROUP BY first;
SELECT n, COUNT(*) FROM (SELECT COUNT(*) OVER (PARTITION BY person_id) AS n FROM scores) AS t WHERE n BETWEEN 1 AND 3 GROUP BY n;
SELECT p.sex, AVG(f.cost) FROM people p JOIN (SELECT person_id, cost FROM visits QUALIFY ROW_NUMBER() OVER (PARTITION BY person_id
    ORDER BY visit_id DESC) = 1) AS f USING (person_id) GROUP BY p.sex;
SELECT clinic, COUNT(*), SUM(cost) FROM (SELECT * FROM visits QUALIFY ROW_NUMBER() OVER (PARTITION BY clinic ORDER BY cost DESC
    NULLS LAST, visit_id) <= 3) AS t GROUP BY clinic;
SELECT COUNT(*), AVG(gap) FROM (SELECT year - LEAD(year, 1, year) OVER (ORDER BY visit_id) AS gap FROM visits) AS t;
SELECT MEDIAN(gap) FROM (SELECT date_diff('day', LAG(seen) OVER (PARTITION BY person_id ORDER BY seen, visit_id), seen) AS gap
    FROM visits) AS t WHERE gap BETWEEN 0 AND 2000;
SELECT COUNT(DISTINCT person_id) FROM (SELECT person_id, cost, MAX(cost) OVER (PARTITION BY person_id) AS most FROM visits) AS t
    WHERE cost = most AND cost > 100;
SELECT COUNT(*) FROM people WHERE (sex, age) IN (('f', 30), ('m', 40)) OR (sex, active) = ('f', TRUE);
SELECT COUNT(*) FROM people WHERE (sex, age) NOT IN (('f', 30), (NULL, 40)) AND (sex, active) <> ('f', TRUE);
SELECT COUNT(*) FROM visits WHERE (clinic, year) IN (SELECT clinic, 2010 + beds FROM clinics) OR (clinic, year) IN (SELECT clinic, 2020 FROM clinics);
SELECT COUNT(*) FROM people WHERE age = ANY ([30, NULL, 40]) OR age = ANY (SELECT beds FROM clinics);
SELECT COUNT(*) FROM people WHERE age <> ALL ([30, 40]) AND sex <> ALL (['x', 'm']) AND age <> ALL (SELECT beds FROM clinics);
SELECT COUNT(*), AVG(age) FROM (SELECT * EXCLUDE (nickname, sex) FROM people) AS t WHERE active;
SELECT AVG(age), SUM(income) FROM (SELECT p.* EXCLUDE (income) REPLACE (LEAST(age, 50) AS age), income FROM people AS p) AS t;
SELECT COUNT(*), AVG(age), COUNT(sex), COUNT(active) FROM (SELECT age, sex FROM people UNION ALL BY NAME SELECT active, age FROM people) AS t;
SELECT AVG(years) FROM (SELECT * EXCLUDE (sex) RENAME (age AS years, born AS day) FROM people) AS t WHERE day > '1950-01-01';
SELECT COUNT(*) FROM (SELECT person_id, clinic FROM visits UNION BY NAME SELECT clinic, person_id FROM visits) AS t;
WITH adults AS MATERIALIZED (SELECT * FROM people WHERE age >= 18), old AS NOT MATERIALIZED (SELECT * FROM adults WHERE age > 60) SELECT COUNT(*) FROM old;
SELECT AVG(cost) FROM (SELECT DISTINCT ON (person_id) person_id, cost FROM visits ORDER BY person_id, seen DESC, visit_id) AS t;
SELECT clinic, COUNT(*) FROM (SELECT DISTINCT ON (person_id) clinic, person_id AS who, -cost AS cost FROM visits ORDER BY cost, visit_id) AS t GROUP BY clinic;
SELECT COUNT(*) FROM main.people AS p JOIN main.visits USING (person_id) WHERE p.age > 30;
SELECT COUNT(*), AVG(main.people.age) FROM main.people WHERE main.people.sex = 'f';
WITH people AS (SELECT * FROM visits) SELECT COUNT(*) FROM main.people;
SELECT COUNT(*) FROM (SELECT person_id, BOOL_OR(cost > 100) AS dear, BOOL_AND(cost > 10) AS always FROM visits GROUP BY person_id) AS t WHERE dear AND always;
SELECT COUNT(*) FROM (SELECT person_id FROM visits GROUP BY person_id HAVING BOOL_OR(cost > 100) FILTER (WHERE year = 2020) IS NULL) AS t;
SELECT COUNT(*) FROM (SELECT BOOL_OR(cost > 400) OVER (PARTITION BY person_id) AS dear FROM visits) AS t WHERE dear;
SELECT COUNT(*) FROM people WHERE nickname LIKE 'a!%' ESCAPE '!' OR nickname NOT LIKE '_!o%' ESCAPE '!' OR nickname ILIKE '%''%' ESCAPE '|';
SELECT COUNT(*) FROM people WHERE nickname SIMILAR TO '(al|bo)' OR sex NOT SIMILAR TO 'f.*';
SELECT strftime(seen, '%Y-%m') AS month, COUNT(*) FROM visits GROUP BY month;
SELECT strftime(born, '%A') AS weekday, COUNT(*), AVG(age) FROM people WHERE strftime(born, '%Y') >= '1950' GROUP BY weekday;
SELECT time_bucket(INTERVAL 3 MONTH, seen) AS quarter, COUNT(*) FROM visits GROUP BY quarter;
SELECT time_bucket(INTERVAL '7' DAY, born) AS week, COUNT(*) FROM people WHERE born > '2015-01-01' GROUP BY week;
SELECT COUNT(*) FROM visits WHERE time_bucket(INTERVAL 2 HOUR, seen) = seen OR seen + INTERVAL 36 HOUR > '2020-01-01' OR date_add(seen, INTERVAL 90 MINUTE) < '2019-01-01';
SELECT SUM(date_sub('year', born, DATE '2021-06-30')), AVG(datesub('month', born, DATE '2021-06-30')) FROM people;
SELECT COUNT(*) FROM visits WHERE make_date(year, 6, 30) > CAST(seen AS DATE) OR extract(epoch FROM seen) < 1550000000;
SELECT strftime('%m', born) AS m, COUNT(*) FROM people WHERE born < born + INTERVAL '7 days' GROUP BY m;
SELECT * FROM clinics;
SELECT clinic, beds + 1, city AS town FROM clinics WHERE beds > 5 ORDER BY -beds;
SELECT c.*, d.city AS other FROM clinics c JOIN clinics d ON c.city = d.city;
SELECT city FROM clinics;
SELECT * FROM (SELECT * EXCLUDE (beds) FROM clinics) AS t ORDER BY clinic DESC;
SELECT * FROM (VALUES (1, 'a'), (2, 'b'), (2, 'b')) AS t(x, y);
SELECT n + 1 FROM (SELECT COUNT(*) AS n FROM people) AS t;
SELECT sex, n * 100 AS p FROM (SELECT sex, COUNT(*) AS n FROM people GROUP BY sex) AS t WHERE n > 100 AND sex IS NOT NULL ORDER BY n DESC LIMIT 1;
WITH r(a, b) AS (SELECT sex, COUNT(*) FROM people GROUP BY sex) SELECT b, r.a FROM r ORDER BY 1;
WITH r(n, sex) AS (SELECT sex, COUNT(*) AS n FROM people GROUP BY sex) SELECT n, q.sex FROM r AS q ORDER BY 2;
WITH r(a, b) AS (SELECT sex, COUNT(*) AS n FROM people GROUP BY sex) SELECT x, b FROM r AS q(x) WHERE b > 50;
WITH r AS (SELECT clinic, SUM(cost) AS s, COUNT(*) AS n FROM visits GROUP BY clinic HAVING n > 10) SELECT *, s / n AS mean FROM r WHERE s > 100;
SELECT t.m, d FROM (SELECT age // 10 AS d, AVG(income) AS m, COUNT(*) AS n FROM people GROUP BY d HAVING n > 2) AS t ORDER BY m DESC;
SELECT * FROM (SELECT city, COUNT(*) AS n FROM clinics GROUP BY city) AS t WHERE n > 1;
SELECT decade(born) AS d, COUNT(*) FROM people WHERE century(born) = 20 GROUP BY d;
SELECT AVG(epoch(seen)), AVG(asin(cost / 500)), AVG(acos(cost / 500)), AVG(atan2(cost, 100)), AVG(tanh(cost / 100)) FROM visits;
SELECT COUNT(*) FROM people WHERE replace(nickname, 'o', '') = 'b' OR lpad(sex, 3, '.') = '..f' OR rpad(nickname, 1, 'x') = 'c' OR strip_accents(nickname) = 'al';
SELECT COUNT(*) FROM people WHERE trim(nickname, 'xy') = '''' OR ltrim(nickname, 'a') = 'l' OR rtrim(nickname, 'o') = 'b' OR regexp_matches(nickname, '^A', 'i');
SELECT COUNT(*) FROM people WHERE concat_ws('-', nickname, sex, age) LIKE 'al-f-%' OR concat_ws(', ', sex, nickname) = 'bo';
SELECT sex, n, 1.0 * n / SUM(n) OVER () AS share, RANK() OVER (ORDER BY n DESC) AS place FROM (SELECT sex, COUNT(*) AS n FROM people GROUP BY sex) AS t;
SELECT year, COUNT(*) AS n, COUNT(*) - LAG(COUNT(*)) OVER (ORDER BY year) AS change FROM visits GROUP BY year;
SELECT clinic, AVG(cost) AS mean, ROW_NUMBER() OVER (ORDER BY AVG(cost)) AS place FROM visits GROUP BY clinic QUALIFY place <= 2;
SELECT 'all' AS who, COUNT(*) AS n FROM people UNION ALL SELECT 'women', COUNT(*) FROM people WHERE sex = 'f' ORDER BY n DESC;
SELECT year, SUM(cost) FROM visits GROUP BY year UNION ALL SELECT NULL, SUM(cost) FROM visits WHERE year > 2019;
SELECT AVG(n), MAX(n), STDDEV_SAMP(n), COUNT(*) FROM (SELECT clinic, COUNT(*) AS n FROM visits GROUP BY clinic) AS t;
WITH c AS (SELECT year, COUNT(*) AS n FROM visits GROUP BY year) SELECT a.year, a.n, b.n AS before, 100.0 * (a.n - b.n) / b.n AS percent FROM c AS a JOIN c AS b ON a.year = b.year + 1;
WITH c AS (SELECT sex, COUNT(*) AS n FROM people GROUP BY sex), d AS (SELECT sex, AVG(age) AS years FROM people GROUP BY sex) SELECT sex, n * years AS total FROM c JOIN d USING (sex);
WITH c AS (SELECT year, clinic, COUNT(*) AS n FROM visits GROUP BY year, clinic) SELECT clinic, SUM(n) AS n, MAX(n) - MIN(n) AS gap FROM c GROUP BY clinic HAVING SUM(n) > 50 ORDER BY 2 DESC LIMIT 2;
WITH c AS (SELECT clinic, COUNT(*) AS n FROM visits GROUP BY clinic) SELECT clinic, n FROM c WHERE n > (SELECT AVG(n) FROM c) ORDER BY n;
SELECT clinic, n, 1.0 * n / (SELECT COUNT(*) FROM visits) AS share FROM (SELECT clinic, COUNT(*) AS n FROM visits GROUP BY clinic) AS t;
SELECT * FROM (SELECT year, COUNT(*) AS n FROM visits GROUP BY year ORDER BY n DESC LIMIT 2) AS t ORDER BY year;
SELECT t.clinic, n, beds FROM (SELECT clinic, COUNT(*) AS n FROM visits GROUP BY clinic) AS t JOIN clinics AS c ON t.clinic = c.clinic;
SELECT CASE WHEN n > 90 THEN 'many' ELSE 'few' END AS size, COUNT(*), SUM(n) FROM (SELECT clinic, COUNT(*) AS n FROM visits GROUP BY clinic) AS t GROUP BY size;
SELECT sex FROM (SELECT sex, COUNT(*) AS n FROM people GROUP BY sex) AS t WHERE n > 10 EXCEPT SELECT 'm';
SELECT clinic, RANK() OVER (ORDER BY beds DESC) AS place FROM clinics;
SELECT city FROM clinics UNION SELECT 'x' ORDER BY 1;
