-- Accepted statements, by the production of dpsql.lark or expr.lark that each of them illustrates.
--
-- They use the schema and the policy of tests/support/worlds.py: people (one row for each person), their visits and scores, and
-- the public table clinics. Tests parse each with the grammar, bind it, and answer it. A parameter that is named after a
-- column gets a value of its type, :fraction is 0.25, :ages is a list of numbers, and any other is the number 30.

-- # statement

SELECT COUNT(*) FROM people;
select count(*) from people;
SELECT COUNT(*) -- a comment may end a line
FROM people;
/* or come first */ SELECT COUNT(*) /* or stand inside */ FROM people;
EXPLAIN PRIVACY SELECT COUNT(*) FROM people;
explain privacy select sex, avg(income) from people group by sex;
EXPLAIN PRIVACY WITH t AS (SELECT * FROM visits) SELECT COUNT(*) FROM t;
SHOW BUDGET;
SHOW PERIODS;
SHOW RELEASES;
SHOW STANDING QUERIES;
show tables;
DESCRIBE people;
DESCRIBE "clinics";
(SELECT COUNT(*) FROM people);
WITH t AS (SELECT * FROM people) (SELECT COUNT(*) FROM t);
SELECT COUNT(*) FROM (WITH t AS (SELECT * FROM people) (SELECT * FROM t)) AS u;

-- # around

SELECT 'all' AS who, COUNT(*) AS n FROM people UNION ALL SELECT 'women', COUNT(*) FROM people WHERE sex = 'f' ORDER BY n;
SELECT COUNT(*) AS n FROM people UNION ALL SELECT COUNT(*) AS n FROM visits LIMIT 1;
SELECT 'people' AS what, COUNT(*) AS n FROM people UNION ALL SELECT 'clinics', COUNT(*) FROM clinics;
WITH c AS (SELECT year, COUNT(*) AS n FROM visits GROUP BY year) SELECT a.n - b.n AS change FROM c AS a JOIN c AS b ON a.year = b.year + 1;
SELECT sex, COUNT(*) AS n, RANK() OVER (ORDER BY COUNT(*) DESC) AS place FROM people GROUP BY sex;
SELECT sex, COUNT(*) AS n FROM people GROUP BY sex QUALIFY ROW_NUMBER() OVER (ORDER BY n) = 1;
SELECT AVG(n) AS mean, MAX(n) AS most FROM (SELECT clinic, COUNT(*) AS n FROM visits GROUP BY clinic) AS t;
SELECT clinic, SUM(n) OVER (ORDER BY n ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) AS two FROM (SELECT clinic, COUNT(*) AS n FROM visits GROUP BY clinic) AS t;
SELECT clinic, RANK() OVER (ORDER BY beds) AS place FROM clinics;
SELECT sex, n FROM (SELECT sex, COUNT(*) AS n FROM people GROUP BY sex) AS t WHERE n > (SELECT COUNT(*) / 3 FROM people);
SELECT sex, COUNT(*) AS n, ROW_NUMBER() OVER () AS place FROM people GROUP BY sex;
SELECT sex, age, SUM(COUNT(*)) OVER (ORDER BY sex, age) AS n FROM people GROUP BY sex, age;
SELECT sex, age, SUM(COUNT(*)) OVER (ORDER BY age ROWS 3 PRECEDING) AS n FROM people GROUP BY sex, age;
SELECT AVG(LEAST(n, 10)) AS mean FROM (SELECT points, COUNT(*) AS n FROM scores GROUP BY points) AS t;
SELECT DISTINCT ON (sex) sex, COUNT(*) AS n FROM people GROUP BY sex;
SELECT DISTINCT ON (clinic) clinic, year, COUNT(*) AS n FROM visits GROUP BY clinic, year ORDER BY clinic, n DESC;
EXPLAIN PRIVACY SELECT COUNT(*) FROM people UNION ALL SELECT COUNT(*) FROM visits;

-- # validate

VALIDATE SELECT COUNT(*) FROM people AGAINST people_syn WITHIN 5 PERCENT;
VALIDATE SELECT sex, COUNT(*) FROM people GROUP BY sex AGAINST people_syn FOR people WITHIN 5 PERCENT OR 10
OPTIONS (epsilon = 0.5, decider = 'flip_distance', alpha = 0.1);
VALIDATE (SELECT AVG(age) FROM people WHERE age > 10) WITHIN 2.5, (SELECT MEDIAN(age) FROM people)
AGAINST people_syn WITHIN 3 OPTIONS (suite = 'conjunction');
EXPLAIN PRIVACY VALIDATE (SELECT SUM(cost) FROM visits) AGAINST visits_syn WITHIN 10 PERCENT;
VALIDATE SELECT COUNT(*) FROM people a JOIN people b ON a.household_id = b.household_id AND a.person_id < b.person_id
    AGAINST people_syn WITHIN 90 OPTIONS (epsilon = 1, clip = 20);

-- # synthesize

CREATE SYNTHETIC TABLE made AS SELECT sex, age, income, born FROM people WHERE age > 10;
CREATE SYNTHETIC TABLE made_of_visits AS SELECT clinic, year, sex, income > 30000 AS rich
    FROM visits JOIN people USING (person_id) OPTIONS (epsilon = 0.5, method = 'independent', rows = 100, bins = 8);
CREATE SYNTHETIC TABLE made_with_keys AS SELECT person_id, sex FROM people OPTIONS (epsilon = 0.5, made_up = 'person_id');
CREATE SYNTHETIC TABLE made_of_cells AS SELECT sex FROM people OPTIONS (epsilon = 0.5, method = 'reweight');
create synthetic table "made of sums" as select sum(cost) as cost, count(*) as n from visits group by person_id options (max_rows = 1);
EXPLAIN PRIVACY CREATE SYNTHETIC TABLE made_next AS SELECT sex FROM people OPTIONS (method = 'mst');
EXPLAIN PRIVACY CREATE SYNTHETIC TABLE made_of_counts AS SELECT sex FROM people OPTIONS (method = 'mwem', queries = 'single');
CREATE SYNTHETIC TABLE made_of_nodes AS SELECT sex, age FROM people OPTIONS (method = 'privbayes', score = 'mutual information', fit = 'conditionals');
CREATE SYNTHETIC TABLE made_for_pairs AS SELECT sex, age FROM people OPTIONS (workload = 'all 1-way, all 2-way; SELECT sex, AVG(age) FROM made_for_pairs GROUP BY sex');
CREATE SYNTHETIC TABLE made_until_close AS SELECT sex, age, income FROM people WHERE age > 10 OPTIONS (epsilon = 1, method = 'mst', candidates = 3,
    accept = '(SELECT sex, COUNT(*) FROM made_until_close GROUP BY sex) WITHIN 50 PERCENT OR 90; SELECT AVG(age) FROM made_until_close m WHERE m.income > 0 WITHIN 40');

-- # synthesize_tables

CREATE SYNTHETIC TABLES made_people AS SELECT person_id, sex, age FROM people WHERE age > 10,
    made_visits AS SELECT person_id AS person, clinic, year FROM visits OPTIONS (epsilon = 1, method = 'independent', rows = 50);
EXPLAIN PRIVACY CREATE SYNTHETIC TABLES next_people AS SELECT person_id, sex FROM people, next_visits AS SELECT person_id, year FROM visits;

-- # drop

DROP SYNTHETIC TABLE made;
drop synthetic table "made of sums";

-- # create_standing

CREATE STANDING QUERY visits_by_year AS SELECT date_trunc('year', seen) AS year, COUNT(*), AVG(cost) FROM visits GROUP BY year OPTIONS (epsilon = 0.1);
create standing query costs as select year, clinic, sum(cost) from visits group by year, clinic options (rho = 0.01, confidence = 0.9, errors = true);
EXPLAIN PRIVACY CREATE STANDING QUERY costs AS SELECT year, SUM(cost) FROM visits GROUP BY year;

-- # drop_standing

DROP STANDING QUERY visits_by_year;

-- # open_model

CREATE ONLINE MODEL modelled AS SELECT sex, age // 10 AS decade FROM people WHERE age > 10;
create online model "modelled visits" as select clinic, year, sex from visits join people using (person_id)
    options (epsilon = 2, method = 'pmw', queries = 5000, updates = 30, max_rows = 2);
EXPLAIN PRIVACY CREATE ONLINE MODEL modelled_next AS SELECT sex FROM people OPTIONS (rho = 0.01, bins = 4);

-- # accuracy

SELECT COUNT(*) FROM people ERROR WITHIN 10;
SELECT sex, COUNT(*) FROM people GROUP BY sex ERROR WITHIN 10 CONFIDENCE 0.9;
select sex, count(*) as n from people group by sex order by n desc limit 1 error within 5 percent of 200;
SELECT sex, COUNT(*) FROM people GROUP BY sex WITHIN 5 PERCENT OF 200 CONFIDENCE 0.99;
SELECT age, COUNT(*) FROM people GROUP BY age STANDARD ERROR 4.5;
SELECT year, COUNT(*) AS n ERROR WITHIN 10, SUM(cost) STANDARD ERROR 200 FROM visits GROUP BY year;
SELECT year, COUNT(*) STANDARD ERROR 5, SUM(cost) FROM visits GROUP BY year ERROR WITHIN 300;
FROM people SELECT sex, COUNT(*) ERROR WITHIN 10 GROUP BY sex;
EXPLAIN PRIVACY SELECT COUNT(*) FROM people STANDARD ERROR 3;
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (rows = 200) AVG(age) FROM people ERROR WITHIN 5;
SELECT MEDIAN(age) FROM people ERROR WITHIN 40 ROWS;
select with differential_privacy options (rows = 100) sex, median(age) error within 20 percent of rows, avg(income) error within 5000
    from people group by sex;
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (rows = 500, spread = 10) STDDEV(age), VAR_POP(age) FROM people
    ERROR WITHIN 2000 CONFIDENCE 0.9;
SELECT clinic, COUNT(DISTINCT year) ERROR WITHIN 2, COUNT(*) ERROR WITHIN 20 FROM visits GROUP BY clinic;
SELECT COUNT(DISTINCT person_id) FROM visits ERROR WITHIN 10;

-- # options

SELECT WITH DIFFERENTIAL_PRIVACY COUNT(*) FROM people;
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 0.5) COUNT(*) FROM people;
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 0.5, errors = true) sex, COUNT(*) AS n, AVG(age) AS mean FROM people GROUP BY sex;
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1, delta = 1e-6, confidence = 0.9) sex, COUNT(*) FROM people GROUP BY sex;
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (rho = 0.05, delta = 1e-7) AVG(income) FROM people;
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 2, mechanism = 'laplace') COUNT(*) FROM people;
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1, bound = 'rows', max_rows = 2) SUM(cost) FROM visits;
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1, bound = 'clip', clip = 800) SUM(cost) FROM visits;
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1, consistency = 'nnls', rounding = 'whole', total = 1000) sex, COUNT(*) FROM people GROUP BY CUBE (sex);
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1, strategy = 'p-identity') age, COUNT(*) FROM people GROUP BY age;
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1, strategy = 'auto', planning = 20) age, COUNT(*) FROM people GROUP BY age;
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1, strategy = 'dawa') age, COUNT(*) FROM people GROUP BY age;
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1, strategy = 'privtree') COUNT(*) FROM people WHERE age >= 30 AND income < 50000;
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1, max_groups = 2) year, COUNT(*) FROM visits GROUP BY year;
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1, bound = 'reservoir', clip = 400, max_groups = 2) year, SUM(cost) FROM visits GROUP BY year;
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1, bound = 'bands') SUM(points), COUNT(*) FROM scores;
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1, delta = 1e-6, bound = 'frequency', max_frequency = 9) a.nickname, COUNT(*) FROM people a JOIN people b USING (household_id) GROUP BY a.nickname;
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1, bound = 'r2t', clip = 1000) COUNT(*) FROM people a JOIN people b USING (household_id);
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1, bound = 'extension', clip = 20) COUNT(*) FROM people a JOIN people b USING (household_id);
WITH t AS (SELECT * FROM people) SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1) COUNT(*) FROM t;

-- # aggregate

SELECT COUNT(*), COUNT(), COUNT(1) FROM people;
SELECT COUNT(income), COUNT(ALL sex) FROM people;
SELECT COUNT(DISTINCT person_id) FROM visits;
SELECT COUNT(DISTINCT clinic), COUNT(DISTINCT (year)) FROM visits;
SELECT COUNT_IF(cost > 100) FROM visits;
SELECT SUM(age) FROM people;
SELECT SUM(cost), SUM(cost * 2), SUM(cost + year) FROM visits;
SELECT AVG(income), MEAN(income), AVG(age) FROM people;
SELECT VAR_POP(age), VAR_SAMP(age), VARIANCE(age) FROM people;
SELECT STDDEV_POP(income), STDDEV_SAMP(income), STDDEV(income) FROM people;
SELECT MODE(clinic), COUNT(*) FROM visits;
SELECT year, MODE() WITHIN GROUP (ORDER BY clinic) AS busiest FROM visits GROUP BY year HAVING MODE(clinic) <> 'a' ORDER BY busiest;
SELECT GEOMEAN(LEAST(GREATEST(income, 1), 100000)), sex FROM people GROUP BY sex;
SELECT CORR(income, age), COVAR_POP(income, age), COVAR_SAMP(income, age) FROM people;
SELECT REGR_SLOPE(income, age), REGR_INTERCEPT(income, age), REGR_R2(income, age) FROM people;
SELECT sex, REGR_COUNT(income, age), REGR_AVGX(income, age), REGR_AVGY(income, age) FROM people GROUP BY sex;
SELECT CORR(cost, year) FILTER (WHERE clinic = 'a'), ROUND(COVAR_SAMP(cost, LEAST(GREATEST(visit_id, 0), 9)), 2) FROM visits;
SELECT MIN(age), MAX(age) FROM people;
SELECT MIN(born), MAX(born) FROM people;
SELECT MEDIAN(income) FROM people;
SELECT SUM(DISTINCT age), AVG(DISTINCT age), COUNT(DISTINCT age) FROM people;
SELECT sex, SUM(DISTINCT age) FROM people GROUP BY sex;
SELECT MIN(DISTINCT age), MAX(DISTINCT born) FROM people;
SELECT QUANTILE_CONT(age, 0.25), QUANTILE_DISC(age, 0.75), QUANTILE(age, 0.5) FROM people;
SELECT APPROX_QUANTILE(age, 0.25), APPROX_QUANTILE(cost, 0.5) FROM people JOIN visits USING (person_id);
SELECT PERCENTILE_CONT(0.9) WITHIN GROUP (ORDER BY cost) FROM visits;
SELECT PERCENTILE_DISC(0.1) WITHIN GROUP (ORDER BY age ASC), PERCENTILE_CONT(0.1) WITHIN GROUP (ORDER BY age DESC) FROM people;
SELECT COUNT(*) FILTER (WHERE sex = 'f') FROM people;
SELECT SUM(cost) FILTER (WHERE year = 2020), AVG(cost) FILTER (WHERE clinic IN ('a', 'b')) FROM visits;
SELECT MEDIAN(age) FILTER (WHERE active), COUNT(DISTINCT clinic) FILTER (WHERE cost > 10) FROM people JOIN visits USING (person_id);
SELECT SUM(CASE WHEN active THEN 1 ELSE 0 END) FROM people;
SELECT SUM(LEAST(GREATEST(weight, 0), 200)) FROM people;

-- # select_item: arithmetic over aggregates

SELECT SUM(cost) / COUNT(*) FROM visits;
SELECT 100.0 * COUNT(*) FILTER (WHERE sex = 'f') / COUNT(*) AS percent FROM people;
SELECT ROUND(AVG(income), 2) AS "average income" FROM people;
SELECT COUNT(*) + 1, -COUNT(*), COUNT(*) * 2 - 3, COUNT(*) // 10, COUNT(*) % 10 FROM people;
SELECT SQRT(VAR_POP(age)) - STDDEV_POP(age) FROM people;
SELECT COALESCE(AVG(income), 0), NULLIF(COUNT(*), 0), GREATEST(COUNT(*), 0) FROM people;
SELECT CASE WHEN COUNT(*) > 100 THEN 'many' ELSE 'few' END FROM people;
SELECT COUNT(*) AS n, n + 1 AS more, more * n FROM people;
SELECT 'people' AS what, COUNT(*) AS n FROM people;
SELECT COUNT(*) > 10 AND AVG(age) < 50 AS old_and_many FROM people;
SELECT COUNT(*) n, AVG(age) mean_age FROM people;
SELECT MAX(age) - MIN(age) AS spread FROM people;
SELECT COUNT(*) AS "limit" FROM people;

-- # where

SELECT COUNT(*) FROM people WHERE age > 40;
SELECT COUNT(*) FROM people WHERE sex = 'f' AND (age < 18 OR age >= 65);
SELECT COUNT(*) FROM people WHERE NOT active;
SELECT COUNT(*) FROM people WHERE active IS TRUE AND sex IS NOT NULL;
SELECT COUNT(*) FROM people WHERE active IS NOT FALSE OR nickname IS NULL;
SELECT COUNT(*) FROM people WHERE sex IS DISTINCT FROM 'f' AND active IS NOT DISTINCT FROM TRUE;
SELECT COUNT(*) FROM people WHERE age BETWEEN 20 AND 40 AND income NOT BETWEEN 0 AND 1000;
SELECT COUNT(*) FROM people WHERE sex IN ('f', 'm') AND age NOT IN (0, 99);
SELECT COUNT(*) FROM people WHERE nickname LIKE 'a%' OR nickname NOT LIKE '_o' OR nickname ILIKE '%Y' OR nickname NOT ILIKE 'b%';
SELECT COUNT(*) FROM people WHERE nickname ~ '^[ab]' OR regexp_full_match(nickname, '[a-z]+');
SELECT COUNT(*) FROM people WHERE age <> 30 AND age != 31 AND age == 32 AND age <= 33 AND age >= 20;
SELECT COUNT(*) FROM people WHERE age + 1 > income / 1000;
SELECT COUNT(*) AS n, age + 1 > 50 AS older FROM people WHERE older GROUP BY older;
SELECT COUNT(*) FROM people WHERE (((age > 3)));
SELECT COUNT(*) FROM people WHERE TRUE;
SELECT COUNT(*) FROM people WHERE NULL;

-- # parameter

SELECT COUNT(*) FROM people WHERE age > ?;
SELECT COUNT(*) FROM people WHERE age BETWEEN ? AND ? AND income < ?;
SELECT COUNT(*) FROM people WHERE age > $1 AND age < $2;
SELECT COUNT(*) FROM people WHERE sex = :sex AND born > :born;
SELECT COUNT(*) FROM people WHERE sex = $sex OR active = $active;
SELECT SUM(LEAST(cost, :most)) FROM visits LIMIT ?;
SELECT QUANTILE_CONT(age, :fraction) FROM people WHERE age IN (?, ?);
SELECT COUNT(*) FROM people WHERE age = ANY (:ages) OR age <> ALL ($ages);

-- # group_by

SELECT sex, COUNT(*) FROM people GROUP BY sex;
SELECT sex, active, COUNT(*) FROM people GROUP BY sex, active;
SELECT sex FROM people GROUP BY sex;
SELECT COUNT(*) FROM people GROUP BY sex;
SELECT age, COUNT(*) FROM people GROUP BY 1;
SELECT sex AS s, active AS a, AVG(income) FROM people GROUP BY s, 2;
SELECT sex, active, MEDIAN(age) FROM people GROUP BY ALL;
SELECT people.sex, COUNT(*) FROM people GROUP BY people.sex;
SELECT age // 10 AS decade, COUNT(*) FROM people GROUP BY decade;
SELECT age // 10 * 10, COUNT(*) FROM people GROUP BY age // 10;
SELECT floor(income / 10000) * 10000 AS bracket, COUNT(*) FROM people GROUP BY bracket;
SELECT floor(income / 10000) * 10000 AS bracket, sex, COUNT(*) FROM people WHERE income > 5000 GROUP BY CUBE (bracket, sex);
SELECT round(income, -4) AS bracket, COUNT(*) FROM people GROUP BY bracket;
SELECT bin_floor(age) AS band, AVG(income) FROM people GROUP BY band;
SELECT CASE WHEN age < 18 THEN 'child' WHEN age < 65 THEN 'adult' ELSE 'old' END AS band, COUNT(*) FROM people GROUP BY band;
SELECT age > 40 AS older, COUNT(*) FROM people GROUP BY older;
SELECT upper(sex), COUNT(*) FROM people GROUP BY upper(sex);
SELECT year(born), COUNT(*) FROM people GROUP BY year(born);
SELECT date_trunc('year', born) AS y, COUNT(*) FROM people GROUP BY y;
SELECT date_trunc('hour', seen) AS h, COUNT(*) FROM visits WHERE seen >= '2019-01-01' AND seen < '2019-01-08' GROUP BY h;
SELECT time_bucket(INTERVAL 15 MINUTE, seen) AS b, COUNT(*) FROM visits WHERE seen >= '2019-01-01' AND seen < '2019-01-02' GROUP BY b;
SELECT EXTRACT(YEAR FROM age(DATE '2020-12-31', born)) AS years, COUNT(*) FROM people GROUP BY years;
SELECT clinic, year, COUNT(*), SUM(cost), AVG(cost) FROM visits GROUP BY clinic, year;
SELECT note, COUNT(*) FROM visits GROUP BY note;
SELECT nickname, COUNT(*) FROM people GROUP BY nickname;
SELECT clinic IN (SELECT clinic FROM clinics WHERE beds > 5) AS big, COUNT(*) FROM visits GROUP BY big;
SELECT 1 AS one, COUNT(*) FROM people GROUP BY ALL;
SELECT sex, active, COUNT(*), AVG(income) FROM people GROUP BY CUBE (sex, active);
SELECT year, clinic, SUM(cost), GROUPING(year, clinic) AS level FROM visits GROUP BY ROLLUP (year, clinic) ORDER BY level DESC, 3 LIMIT 10;
SELECT sex, age // 20 AS band, COUNT(*) FROM people GROUP BY GROUPING SETS ((sex, band), ROLLUP (sex), ()) HAVING GROUPING_ID(sex) = 0;
SELECT year, clinic, COUNT(*) FROM visits GROUP BY year, CUBE (clinic, (year, clinic));
SELECT COUNT(*) FROM people GROUP BY ();
SELECT year, COUNT(*), SUM(COUNT(*)) OVER (ORDER BY year) AS so_far FROM visits GROUP BY year;
SELECT year, clinic, SUM(SUM(cost)) OVER (PARTITION BY clinic ORDER BY year DESC) FROM visits GROUP BY year, clinic;
SELECT clinic, AVG(COUNT(*)) OVER (ORDER BY clinic ROWS BETWEEN 2 PRECEDING AND 2 FOLLOWING) FROM visits GROUP BY clinic;
SELECT year, SUM(COUNT(*)) OVER (ORDER BY year RANGE BETWEEN 1 PRECEDING AND CURRENT ROW) FROM visits GROUP BY year;
SELECT sex, COUNT(*) / SUM(COUNT(*)) OVER () AS share FROM people GROUP BY sex;
SELECT DISTINCT sex FROM people;
SELECT DISTINCT sex, age > 50 FROM people;
SELECT DISTINCT COUNT(*) FROM people GROUP BY sex;

-- # having

SELECT sex, COUNT(*) FROM people GROUP BY sex HAVING COUNT(*) > 10;
SELECT sex, COUNT(*) AS n FROM people GROUP BY sex HAVING n > 10 AND AVG(age) > 20;
SELECT sex FROM people GROUP BY sex HAVING sex = 'f' OR COUNT(*) BETWEEN 1 AND 5;
SELECT COUNT(*) FROM people HAVING COUNT(*) > 10;
SELECT SUM(age) AS age FROM people GROUP BY sex HAVING age > 50;

-- # order_by and limit

SELECT sex, COUNT(*) FROM people GROUP BY sex ORDER BY sex;
SELECT sex, COUNT(*) FROM people GROUP BY sex ORDER BY 2 DESC, 1;
SELECT sex, COUNT(*) AS n FROM people GROUP BY sex ORDER BY n DESC NULLS LAST, sex ASC NULLS FIRST;
SELECT sex, COUNT(*) FROM people GROUP BY sex ORDER BY ALL;
SELECT sex, COUNT(*) FROM people GROUP BY sex ORDER BY ALL DESC NULLS FIRST;
SELECT sex, COUNT(*) FROM people GROUP BY sex ORDER BY AVG(income) / COUNT(*) DESC;
SELECT clinic, COUNT(*) FROM visits GROUP BY clinic ORDER BY COUNT(*) DESC LIMIT 3;
SELECT clinic, COUNT(*) FROM visits GROUP BY clinic ORDER BY clinic LIMIT 3 OFFSET 1;
SELECT clinic, COUNT(*) FROM visits GROUP BY clinic OFFSET 2;
SELECT clinic, COUNT(*) FROM visits GROUP BY clinic LIMIT ALL;
SELECT clinic, COUNT(*) FROM visits GROUP BY clinic ORDER BY 2 DESC FETCH FIRST 3 ROWS ONLY;
SELECT clinic, COUNT(*) FROM visits GROUP BY clinic LIMIT 0;

-- # from: tables, subqueries, CTEs

SELECT COUNT(*) FROM people AS p;
SELECT COUNT(*) FROM people p WHERE p.age > 3;
SELECT AVG(a) FROM people AS p(id, h, s, a);
FROM people SELECT COUNT(*);
FROM people SELECT sex, COUNT(*) WHERE age > 3 GROUP BY sex;
SELECT COUNT(*) FROM (SELECT * FROM people);
SELECT AVG(a) FROM (SELECT age AS a, sex FROM people WHERE active) AS t WHERE sex = 'f';
SELECT SUM(x) FROM (SELECT age, income FROM people) AS t(x, y);
SELECT MAX(double_age) FROM (SELECT p.*, age * 2 AS double_age FROM people p);
SELECT COUNT(*) FROM (SELECT x FROM (SELECT age AS x FROM people) AS t) AS u;
SELECT COUNT(*) FROM (FROM people SELECT age, sex) AS t WHERE age > 3;
WITH adults AS (SELECT * FROM people WHERE age >= 18) SELECT sex, COUNT(*) FROM adults GROUP BY sex;
WITH a AS (SELECT * FROM people), b(x) AS (SELECT age FROM a) SELECT AVG(x) FROM b;
WITH people AS (SELECT * FROM people WHERE active) SELECT COUNT(*) FROM people;
SELECT COUNT(*) FROM (WITH t AS (SELECT age FROM people) SELECT * FROM t) AS u;
SELECT COUNT(*) FROM (SELECT sex FROM people ORDER BY age) AS t;
SELECT COUNT(*) FROM (SELECT DISTINCT clinic FROM visits) AS t;
SELECT COUNT(*) FROM (SELECT DISTINCT person_id, clinic FROM visits) AS t;
SELECT SUM(w) FROM visits JOIN (VALUES ('a', 1), ('b', 2.5)) AS weights(clinic, w) USING (clinic);
SELECT COUNT(*) FROM visits, (VALUES (2019), (2020)) AS years(y) WHERE year = y;
SELECT COUNT(*), MAX(beds) FROM clinics;
SELECT city, COUNT(*) FROM clinics GROUP BY city;
SELECT COUNT(*);
SELECT COUNT(*) FROM (people JOIN visits USING (person_id)) AS j WHERE j.cost > 100;
SELECT x, COUNT(*) FROM people JOIN UNNEST([20, 30, 40]) AS u(x) ON age > x GROUP BY x;
SELECT s, i, COUNT(p.person_id) FROM UNNEST(['f', 'm']) WITH ORDINALITY AS u(s, i) LEFT JOIN people p ON p.sex = u.s GROUP BY s, i;
SELECT x, COUNT(*) FROM people, (SELECT UNNEST([20, 30]) AS x) AS u WHERE age > x GROUP BY x;
SELECT x, COUNT(*) FROM people JOIN generate_series(20, 100, 9) AS u(x) ON age > x GROUP BY x;
SELECT SUM(range) FROM range(10);

-- # from: what one entity has, first summed up

SELECT AVG(n) FROM (SELECT person_id, COUNT(*) AS n FROM visits GROUP BY person_id) AS t;
SELECT MEDIAN(total) FROM (SELECT person_id, SUM(cost) AS total FROM visits GROUP BY person_id) AS t;
SELECT n, COUNT(*) FROM (SELECT person_id, COUNT(*) AS n FROM visits GROUP BY person_id) AS t GROUP BY n;
SELECT COUNT(*) FROM (SELECT person_id FROM visits GROUP BY person_id HAVING COUNT(*) > 1 AND MAX(cost) > 100) AS t;
SELECT sex, AVG(best) FROM people JOIN (SELECT person_id, MAX(cost) AS best FROM visits GROUP BY person_id) AS t USING (person_id) GROUP BY sex;
SELECT SUM(c) FROM (SELECT person_id, clinic, AVG(cost) AS c FROM visits GROUP BY person_id, clinic) AS t;
SELECT COUNT(*) FROM (SELECT p.person_id, COUNT(v.visit_id) AS n FROM people p LEFT JOIN visits v USING (person_id) GROUP BY p.person_id) AS t WHERE n = 0;
WITH last AS (SELECT person_id, MAX(year) AS year FROM visits GROUP BY ALL) SELECT year, COUNT(*) FROM last GROUP BY year;
SELECT AVG(LEAST(n, 20)) FROM (SELECT clinic, year, COUNT(*) AS n FROM visits GROUP BY clinic, year HAVING COUNT(*) > 1) AS t;
SELECT COUNT(*) FROM (SELECT age, AVG(income) AS mean FROM people GROUP BY age) AS t WHERE mean > 30000;
SELECT AVG(kinds) FROM (SELECT person_id, COUNT(DISTINCT clinic) AS kinds, MIN(note) AS note FROM visits GROUP BY 1) AS t;
SELECT AVG(m) FROM (SELECT person_id, MEDIAN(CAST(cost AS DOUBLE)) AS m FROM visits GROUP BY person_id) AS t;
SELECT AVG(q) FROM (SELECT person_id, QUANTILE_CONT(CAST(cost AS DOUBLE), 0.9) AS q FROM visits GROUP BY person_id HAVING COUNT(*) > 1) AS t;
SELECT last, COUNT(*) FROM (SELECT person_id, ARG_MAX(clinic, visit_id) AS last FROM visits GROUP BY person_id) AS t GROUP BY last;
SELECT AVG(c) FROM (SELECT person_id, MIN_BY(cost, seen) FILTER (WHERE year > 2018) AS c FROM visits GROUP BY person_id) AS t;
SELECT sex, AVG(n) FROM (SELECT person_id, ANY_VALUE(sex) AS sex, COUNT(*) AS n FROM people JOIN visits USING (person_id) GROUP BY person_id) AS t GROUP BY sex;

-- # window, qualify

SELECT AVG(change) FROM (SELECT cost - LAG(cost, 1, cost) OVER (PARTITION BY person_id ORDER BY seen, visit_id) AS change FROM visits) AS t;
SELECT clinic, AVG(cost) FROM (SELECT * FROM visits QUALIFY ROW_NUMBER() OVER (PARTITION BY person_id ORDER BY cost DESC,
visit_id) = 1) AS dearest GROUP BY clinic;
SELECT AVG(gap) FROM (SELECT date_diff('day', seen, LEAD(seen, 1, seen) OVER w) AS gap FROM visits
WINDOW w AS (PARTITION BY person_id ORDER BY seen, visit_id)) AS t;
SELECT COUNT(*) FROM (SELECT SUM(cost) OVER (PARTITION BY person_id ORDER BY visit_id) AS total FROM visits) AS t WHERE total > 500;
SELECT nth, AVG(cost) FROM (SELECT cost, row_number() over (partition by person_id order by visit_id) AS nth FROM visits) AS t
WHERE nth <= 3 GROUP BY nth;
SELECT first, COUNT(*) FROM (SELECT FIRST_VALUE(clinic) OVER w AS first, LAST_VALUE(clinic) OVER (w ROWS BETWEEN CURRENT ROW AND
UNBOUNDED FOLLOWING) AS last FROM visits WINDOW w AS (PARTITION BY person_id ORDER BY visit_id)) AS t WHERE first <> last GROUP BY first;
SELECT half, COUNT(*) FROM (SELECT NTILE(2) OVER (PARTITION BY person_id ORDER BY cost DESC NULLS LAST, visit_id) AS half FROM visits)
AS t GROUP BY half;
SELECT COUNT(*) FROM (SELECT RANK() OVER w AS r, DENSE_RANK() OVER w AS d FROM visits WINDOW w AS (PARTITION BY person_id ORDER BY year))
AS t WHERE r <> d;
SELECT AVG(dear) FROM (SELECT COUNT(*) FILTER (WHERE cost > 100) OVER (PARTITION BY person_id) AS dear FROM visits) AS t;
SELECT AVG(smooth) FROM (SELECT AVG(cost) OVER (PARTITION BY person_id ORDER BY visit_id ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING)
AS smooth FROM visits) AS t;
SELECT COUNT(*) FROM (SELECT year, MIN(year) OVER (PARTITION BY person_id ORDER BY visit_id ROWS 2 PRECEDING) AS low FROM visits
QUALIFY year > low OR COUNT(*) OVER (PARTITION BY person_id RANGE BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING) = 1) AS t;
SELECT AVG(change) FROM (SELECT year - LAG(year) OVER (ORDER BY visit_id) AS change FROM visits) AS t;
SELECT clinic, COUNT(*) FROM (SELECT * FROM visits QUALIFY ROW_NUMBER() OVER (PARTITION BY clinic ORDER BY cost DESC, visit_id) <= 5) AS t
GROUP BY clinic;
SELECT SUM(beds) FROM (SELECT beds FROM clinics QUALIFY RANK() OVER (ORDER BY beds DESC) = 1) AS largest;
SELECT AVG(r) FROM (SELECT PERCENT_RANK() OVER (PARTITION BY person_id ORDER BY cost) AS r FROM visits) AS t;
SELECT COUNT(*) FROM (SELECT CUME_DIST() OVER w AS r FROM visits WINDOW w AS (PARTITION BY person_id ORDER BY cost)) AS t WHERE r > 0.5;
SELECT AVG(second) FROM (SELECT NTH_VALUE(cost, 2) OVER (PARTITION BY person_id ORDER BY visit_id) AS second FROM visits) AS t;

-- # join

SELECT COUNT(*) FROM people JOIN visits USING (person_id);
SELECT sex, SUM(cost) FROM people p JOIN visits v ON p.person_id = v.person_id GROUP BY sex;
SELECT COUNT(*) FROM people p INNER JOIN visits v ON v.person_id = p.person_id AND v.year > 2018;
SELECT COUNT(v.visit_id) FROM people p LEFT JOIN visits v USING (person_id);
SELECT COUNT(*) FROM visits v RIGHT OUTER JOIN people p ON p.person_id = v.person_id;
SELECT city, COUNT(*) FROM visits JOIN clinics USING (clinic) GROUP BY city;
SELECT city, AVG(cost) FROM visits v LEFT OUTER JOIN clinics c ON v.clinic = c.clinic GROUP BY city;
SELECT c.city, COUNT(*) FROM clinics c RIGHT JOIN visits v USING (clinic) GROUP BY c.city;
SELECT COUNT(*) FROM people p, visits v WHERE p.person_id = v.person_id;
SELECT city, COUNT(*) FROM people p, visits v, clinics c WHERE p.person_id = v.person_id AND v.clinic = c.clinic AND p.age > 30 GROUP BY city;
SELECT COUNT(*) FROM visits CROSS JOIN clinics;
SELECT SUM(points) FROM people JOIN visits USING (person_id) JOIN scores USING (person_id);
SELECT COUNT(*) FROM (people JOIN visits USING (person_id)) JOIN clinics USING (clinic);
SELECT COUNT(*) FROM ((SELECT * FROM people) AS p JOIN visits USING (person_id));
SELECT COUNT(*) FROM visits a JOIN visits b ON a.person_id = b.person_id AND a.visit_id < b.visit_id;
SELECT COUNT(*) FROM (SELECT * FROM visits WHERE year = 2020) AS v JOIN (SELECT * FROM people WHERE age > 20) AS p USING (person_id);
SELECT COUNT(*) FROM clinics a JOIN clinics b ON a.city = b.city AND a.clinic <> b.clinic;
SELECT COUNT(person_id), COUNT(visit_id) FROM people FULL JOIN visits USING (person_id);
SELECT COUNT(*) FROM people p FULL OUTER JOIN visits v ON p.person_id = v.person_id WHERE v.visit_id IS NULL OR p.age > 50;
SELECT COUNT(visit_id), COUNT(*) FROM clinics c LEFT JOIN visits v ON c.clinic = v.clinic;
SELECT COUNT(*) FROM visits FULL JOIN clinics USING (clinic);
SELECT COUNT(*) FROM visits v FULL JOIN clinics c ON v.year - 2000 < c.beds;
SELECT sex, COUNT(*) FROM people NATURAL JOIN visits GROUP BY sex;
SELECT COUNT(*) FROM people NATURAL LEFT JOIN visits WHERE visit_id IS NULL;
SELECT COUNT(person_id) FROM visits NATURAL FULL OUTER JOIN people;
SELECT sex, COUNT(*) FROM people SEMI JOIN visits USING (person_id) GROUP BY sex;
SELECT AVG(age) FROM people p ANTI JOIN visits v ON v.person_id = p.person_id AND v.cost > 100;
SELECT COUNT(*) FROM clinics ANTI JOIN visits USING (clinic);
SELECT COUNT(*) FROM people NATURAL SEMI JOIN visits;

-- # set_operation

SELECT COUNT(*) FROM (SELECT person_id FROM visits UNION ALL SELECT person_id FROM scores) AS t;
SELECT SUM(x) FROM (SELECT age AS x FROM people UNION ALL SELECT points FROM scores UNION ALL SELECT year FROM visits) AS t;
WITH all_rows AS (SELECT 'visit' AS kind, person_id FROM visits UNION ALL SELECT 'score', person_id FROM scores)
SELECT kind, COUNT(*) FROM all_rows GROUP BY kind;
WITH t AS (SELECT 1 AS x UNION ALL SELECT 2 ORDER BY x) SELECT COUNT(*) FROM t;
SELECT COUNT(*) FROM (WITH p AS (SELECT age FROM people) SELECT age FROM p UNION ALL SELECT age + 1 FROM p) AS t;
SELECT AVG(x) FROM ((SELECT beds AS x FROM clinics) UNION ALL (SELECT 5)) AS t;
SELECT COUNT(*) FROM (SELECT age FROM people UNION SELECT year FROM visits) AS t;
SELECT COUNT(*) FROM (SELECT clinic FROM visits UNION DISTINCT SELECT city FROM clinics) AS t;
SELECT COUNT(*) FROM (SELECT clinic FROM visits EXCEPT SELECT clinic FROM clinics) AS t;
SELECT COUNT(*) FROM (SELECT person_id FROM people EXCEPT ALL SELECT person_id FROM visits) AS t;
SELECT COUNT(*) FROM (SELECT clinic, year FROM visits INTERSECT SELECT nickname, 2019 FROM people) AS t;
SELECT COUNT(*) FROM (SELECT clinic FROM visits INTERSECT ALL SELECT clinic FROM clinics) AS t;
SELECT COUNT(*) FROM (SELECT age FROM people UNION SELECT year FROM visits INTERSECT SELECT 2019 ORDER BY age) AS t;
SELECT COUNT(*) FROM (WITH p AS (SELECT clinic FROM visits) SELECT clinic FROM p INTERSECT SELECT clinic FROM clinics ORDER BY 1) AS t;
SELECT COUNT(*) FROM (WITH p AS (SELECT clinic FROM visits) SELECT clinic FROM p EXCEPT SELECT city FROM clinics ORDER BY 1) AS t;

-- # in_subquery and exists

SELECT COUNT(*) FROM visits WHERE clinic IN (SELECT clinic FROM clinics WHERE city = 'Oslo');
SELECT COUNT(*) FROM visits WHERE clinic NOT IN (SELECT clinic FROM clinics WHERE beds > 5);
SELECT COUNT(*) FROM visits v WHERE EXISTS (SELECT 1 FROM clinics c WHERE c.clinic = v.clinic AND c.city = 'Rome');
SELECT COUNT(*) FROM visits WHERE NOT EXISTS (SELECT * FROM clinics WHERE clinics.clinic = visits.clinic);
SELECT COUNT(*) FROM people WHERE person_id IN (SELECT person_id FROM visits WHERE year = 2020);
SELECT COUNT(*) FROM people WHERE person_id NOT IN (SELECT person_id FROM visits);
SELECT sex, COUNT(*) FROM people p WHERE EXISTS (SELECT 1 FROM visits v WHERE v.person_id = p.person_id AND v.cost > 100) GROUP BY sex;
SELECT AVG(age) FROM people p WHERE NOT EXISTS (SELECT 1 FROM visits v WHERE v.person_id = p.person_id);
SELECT COUNT(*) FROM people WHERE EXISTS (SELECT 1 FROM clinics WHERE city = 'Oslo');
SELECT COUNT(*) FILTER (WHERE clinic IN (SELECT clinic FROM clinics WHERE city = 'Oslo')) FROM visits;
SELECT COUNT(*) FROM visits v, people p WHERE v.person_id = p.person_id AND v.clinic IN (SELECT clinic FROM clinics);
SELECT COUNT(*) FROM people p WHERE EXISTS (SELECT 1 FROM visits v WHERE v.person_id = p.person_id AND v.year - 2000 > p.age);
SELECT COUNT(*) FROM people p WHERE EXISTS (SELECT 1 FROM clinics WHERE p.age > beds);
SELECT COUNT(*) FROM clinics c WHERE EXISTS (SELECT 1 FROM visits v WHERE v.clinic = c.clinic);
SELECT COUNT(city) FROM clinics WHERE clinic IN (SELECT clinic FROM visits WHERE cost > 100) OR beds > 10;
SELECT COUNT(*) FROM clinics WHERE clinic IS NOT NULL AND clinic NOT IN (SELECT clinic FROM visits WHERE clinic IS NOT NULL);
SELECT COUNT(*) FROM people WHERE age > ANY (SELECT beds FROM clinics) AND age >= ALL ([18, 20]);
SELECT COUNT(*) FROM people WHERE NOT age <= ALL (SELECT beds FROM clinics);
SELECT COUNT(*) FROM people p WHERE p.age > ALL (SELECT v.cost FROM visits v WHERE v.person_id = p.person_id);

-- # subquery: released first

SELECT COUNT(*) FROM people WHERE income > (SELECT AVG(income) FROM people);
SELECT clinic, COUNT(*) FROM visits WHERE cost > (SELECT AVG(cost) FROM visits) GROUP BY clinic;
SELECT sex, COUNT(*) * 1.0 / (SELECT COUNT(*) FROM people) AS share FROM people GROUP BY sex;
SELECT AVG(income) - (SELECT AVG(income) FROM people) FROM people WHERE sex = 'f';
SELECT CASE WHEN income > (SELECT AVG(income) FROM people) THEN 'above' ELSE 'below' END AS half, COUNT(*) FROM people GROUP BY half;
SELECT COUNT(*) FILTER (WHERE age > (SELECT AVG(age) FROM people)), SUM(CASE WHEN age > (SELECT AVG(age) FROM people) THEN 1 ELSE 0 END) FROM people;
SELECT SUM(LEAST(GREATEST(income, 0), (SELECT AVG(income) FROM people))) FROM people;
SELECT year, COUNT(*) AS n FROM visits GROUP BY year HAVING n > (SELECT COUNT(*) FROM visits) / 5 ORDER BY abs(n - (SELECT COUNT(*) FROM visits) / 5);
SELECT COUNT(*) FROM people WHERE age > (SELECT AVG(age) FROM people WHERE income > (SELECT AVG(income) FROM people));
WITH f AS (SELECT * FROM people WHERE sex = 'f') SELECT COUNT(*) FROM people WHERE age > (SELECT AVG(age) FROM f HAVING COUNT(*) > 3);
SELECT COUNT(*) FROM people JOIN visits ON people.person_id = visits.person_id AND cost > (SELECT AVG(cost) FROM visits);
SELECT (SELECT COUNT(*) FROM visits) * 1.0 / (SELECT COUNT(*) FROM people) AS each;
SELECT COUNT(*) FROM clinics WHERE beds < (SELECT AVG(age) FROM people);
WITH m AS (SELECT AVG(age) AS p, STDDEV(age) AS s FROM people) SELECT COUNT(*) FROM people WHERE age > (SELECT p + s FROM m);
WITH m(p) AS (SELECT AVG(cost) FROM visits) SELECT COUNT(*) FROM visits JOIN m ON cost > m.p;
SELECT COUNT(*) FROM people CROSS JOIN (SELECT AVG(age) AS p FROM people) AS m WHERE age > m.p;

-- # subquery: a constant of public tables

SELECT COUNT(*) FROM people WHERE age > (SELECT AVG(beds) FROM clinics);
SELECT COUNT(*) FROM visits WHERE clinic = (SELECT clinic FROM clinics WHERE city = 'Rome');
SELECT SUM(age * (SELECT MAX(beds) FROM clinics)) FROM people;

-- # subquery: linked to the row around

SELECT COUNT(*) FROM visits v WHERE v.cost > (SELECT AVG(w.cost) FROM visits w WHERE w.person_id = v.person_id);
SELECT AVG(n) FROM (SELECT (SELECT COUNT(*) FROM visits v WHERE v.person_id = p.person_id) AS n FROM people p) AS t;
SELECT (SELECT COUNT(*) FROM visits v WHERE v.person_id = p.person_id AND v.year = 2020) AS n, COUNT(*) FROM people p GROUP BY n;
SELECT sex, SUM((SELECT SUM(cost) FROM visits v WHERE v.person_id = p.person_id)) FROM people p GROUP BY sex;
SELECT COUNT(*) FROM people p WHERE (SELECT MAX(cost) - MIN(cost) FROM visits v WHERE v.person_id = p.person_id HAVING COUNT(*) > 1) > 100;
SELECT COUNT(*) FROM visits v WHERE (SELECT SUM(c.beds) FROM clinics c WHERE c.clinic = v.clinic) > 5;
SELECT COUNT(*) FROM visits v WHERE (SELECT p.age FROM people p WHERE p.person_id = v.person_id) > 40;
SELECT (SELECT c.city FROM clinics c WHERE c.clinic = v.clinic) IS NULL AS lost, COUNT(*) FROM visits v GROUP BY lost;
SELECT AVG(n) FROM people p, (SELECT COUNT(*) AS n FROM visits v WHERE v.person_id = p.person_id) AS t;
SELECT COUNT(*) FROM people p WHERE (SELECT MEDIAN(cost) FROM visits v WHERE v.person_id = p.person_id) > 100;

-- # expr: numbers

SELECT AVG(age + 1 - 2 * 3), SUM(age / 2), SUM(age // 2), SUM(age % 2) FROM people;
SELECT SUM(abs(points)), SUM(sign(points)), SUM(points ** 2), SUM(pow(points, 2)) FROM scores;
SELECT SUM(floor(cost)), SUM(ceil(cost)), SUM(ceiling(cost)), SUM(round(cost)), SUM(round(cost, 1)), SUM(trunc(cost)) FROM visits;
SELECT AVG(sqrt(cost)), AVG(cbrt(cost)), AVG(ln(cost + 1)), AVG(log(cost + 1)), AVG(log2(cost + 1)), AVG(log10(cost + 1)) FROM visits;
SELECT AVG(exp(cost / 100)), AVG(log(3, cost + 1)), AVG(power(age, 2)), AVG(mod(age, 7)) FROM people JOIN visits USING (person_id);
SELECT AVG(sin(age)), AVG(cos(age)), AVG(atan(age)), AVG(radians(age)), AVG(degrees(age)) FROM people;
SELECT COUNT(*) FROM people WHERE tan(age) > 1;
SELECT COUNT(*) FROM people WHERE isnan(income) OR isinf(income) OR NOT isfinite(income);
SELECT SUM(least(age, 50)), SUM(greatest(age, 50, 20)), SUM(coalesce(income, 0)), SUM(ifnull(income, 0)), AVG(nullif(age, 0)) FROM people;
SELECT COUNT(*) FROM people WHERE age = 1_0 OR income > 1e4 OR income < .5 OR income = 5. OR age > 99999999999999999999;
SELECT COUNT(*) FROM people WHERE -age < +3 AND - -age > 2;

-- # expr: texts

SELECT COUNT(*) FROM people WHERE lower(nickname) = 'al' OR upper(nickname) = 'BO' OR length(nickname) > 1 OR reverse(nickname) = 'yc';
SELECT COUNT(*) FROM people WHERE trim(nickname) = '' OR ltrim(nickname) = 'x''y' OR rtrim(nickname) = 'a' OR trim(LEADING FROM nickname) = 'b';
SELECT COUNT(*) FROM people WHERE substring(nickname, 1, 1) = 'a' OR substr(nickname, 2) = 'b' OR substring(nickname FROM 1 FOR 1) = 'c';
SELECT COUNT(*) FROM people WHERE left(nickname, 1) = 'a' OR right(nickname, 1) = 'b' OR contains(nickname, 'o');
SELECT COUNT(*) FROM people WHERE starts_with(nickname, 'a') OR prefix(nickname, 'a') OR ends_with(nickname, 'b') OR suffix(nickname, 'b');
SELECT COUNT(*) FROM people WHERE strpos(nickname, 'o') > 0 OR position('o' IN nickname) > 0 OR instr(nickname, 'o') > 0;
SELECT COUNT(*) FROM people WHERE sex || nickname = 'fal' OR concat(sex, '-', nickname, age) = 'f-al3';
SELECT COUNT(*) FROM people WHERE regexp_matches(nickname, '[aeiou]');
SELECT split_part(nickname, '-', 1) AS part, COUNT(*) FROM people GROUP BY part;

-- # expr: times

SELECT COUNT(*) FROM people WHERE born >= DATE '1980-01-01' AND born < '2000-1-1';
SELECT COUNT(*) FROM visits WHERE seen BETWEEN TIMESTAMP '2019-01-01 00:00:00' AND '2019-06-30 23:59:59.5';
SELECT COUNT(*) FROM people WHERE year(born) = 1980 AND month(born) = 2 AND day(born) = 29 AND quarter(born) = 1;
SELECT COUNT(*) FROM visits WHERE hour(seen) = 12 AND minute(seen) = 30 AND second(seen) = 0;
SELECT COUNT(*) FROM visits WHERE week(seen) = 1 OR dayofweek(seen) = 0 OR weekday(seen) = 6 OR isodow(seen) = 7 OR dayofyear(seen) = 1;
SELECT COUNT(*) FROM people WHERE weekofyear(born) = 1 AND dayofmonth(born) = 31 AND date_trunc('month', born::DATE) > '2000-01-01';
SELECT extract(year FROM seen), COUNT(*) FROM visits GROUP BY extract(year FROM seen);
SELECT date_part('month', seen) AS m, COUNT(*) FROM visits GROUP BY m;
SELECT COUNT(*) FROM visits WHERE date_trunc('month', seen) = TIMESTAMP '2020-01-01';
SELECT AVG(date_diff('year', born, DATE '2020-01-01')), AVG(datediff('day', born, '2020-01-01')) FROM people;
SELECT COUNT(*) FROM people WHERE born + 30 > '2000-01-01' AND born - 7 < '2000-01-01' AND born - DATE '2000-01-01' > 5;
SELECT COUNT(*) FROM visits WHERE seen + INTERVAL 3 DAY > '2020-01-01' AND seen - INTERVAL '2' MONTH < '2020-01-01' AND seen > DATE '2019-01-01' + INTERVAL 1 YEAR;
SELECT AVG(date_part('year', age(DATE '2020-12-31', born))), COUNT(*) FILTER (WHERE year(age(seen::DATE, born)) > 30) FROM people JOIN visits USING (person_id);
SELECT seen::DATE AS d, COUNT(*) FROM visits WHERE seen < '2018-02-01' GROUP BY d;

-- # expr: CASE and casts

SELECT SUM(CASE sex WHEN 'f' THEN 1 WHEN 'm' THEN 2 END), AVG(CASE WHEN age > 30 THEN age END), SUM(if(active, 1, 0)) FROM people;
SELECT AVG(CAST(age AS DOUBLE)), SUM(age::BIGINT), SUM(CAST(active AS INTEGER)), AVG(CAST(cost AS DECIMAL(6, 1))) FROM people JOIN visits USING (person_id);
SELECT COUNT(*) FROM people WHERE TRY_CAST(nickname AS INTEGER) > 3 OR CAST(age AS VARCHAR) = '3' OR CAST(born AS TIMESTAMP) > '2000-01-01';
SELECT COUNT(*) FROM visits WHERE CAST(seen AS DATE) = DATE '2020-01-01' OR cost::INT = 5 OR CAST(cost AS REAL) > 5.5;

-- # other ways to say the same

SELECT QUANTILE_CONT(age, [0.1, 0.9]) AS q FROM people;
SELECT PERCENTILE_CONT([0.1, 0.9]) WITHIN GROUP (ORDER BY age) AS q, sex, COUNT(*) FROM people GROUP BY 2 ORDER BY 2, 3;
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
SELECT PERCENTILE_DISC(0.1) WITHIN GROUP (ORDER BY age DESC) FROM people;
SELECT strftime(seen, '%Y-%m') AS month, COUNT(*) FROM visits GROUP BY month;
SELECT strftime(born, '%A') AS weekday, COUNT(*), AVG(age) FROM people WHERE strftime(born, '%Y') >= '1950' GROUP BY weekday;
SELECT time_bucket(INTERVAL 3 MONTH, seen) AS quarter, COUNT(*) FROM visits GROUP BY quarter;
SELECT time_bucket(INTERVAL '7' DAY, born) AS week, COUNT(*) FROM people WHERE born > '2015-01-01' GROUP BY week;
SELECT COUNT(*) FROM visits WHERE time_bucket(INTERVAL 2 HOUR, seen) = seen OR seen + INTERVAL 36 HOUR > '2020-01-01' OR date_add(seen, INTERVAL 90 MINUTE) < '2019-01-01';
SELECT SUM(date_sub('year', born, DATE '2021-06-30')), AVG(datesub('month', born, DATE '2021-06-30')) FROM people;
SELECT COUNT(*) FROM visits WHERE make_date(year, 6, 30) > CAST(seen AS DATE) OR extract(epoch FROM seen) < 1550000000;
SELECT decade(born) AS d, COUNT(*) FROM people WHERE century(born) = 20 GROUP BY d;
SELECT AVG(epoch(seen)), AVG(asin(cost / 500)), AVG(acos(cost / 500)), AVG(atan2(cost, 100)), AVG(tanh(cost / 100)) FROM visits;
SELECT COUNT(*) FROM people WHERE replace(nickname, 'o', '') = 'b' OR lpad(sex, 3, '.') = '..f' OR rpad(nickname, 1, 'x') = 'c' OR strip_accents(nickname) = 'al';
SELECT COUNT(*) FROM people WHERE trim(nickname, 'xy') = '''' OR ltrim(nickname, 'a') = 'l' OR rtrim(nickname, 'o') = 'b' OR regexp_matches(nickname, '^A', 'i');
SELECT COUNT(*) FROM people WHERE concat_ws('-', nickname, sex, age) LIKE 'al-f-%' OR concat_ws(', ', sex, nickname) = 'bo';
SELECT * FROM clinics ORDER BY beds DESC LIMIT 2;
SELECT c.*, beds + 1 AS more FROM clinics AS c WHERE beds > 5;
SELECT 100.0 * n / total AS percent FROM (SELECT COUNT(*) FILTER (WHERE active) AS n, COUNT(*) AS total FROM people) AS t;
WITH r(sex, n) AS (SELECT sex, COUNT(*) FROM people GROUP BY sex) SELECT * FROM r WHERE n > 10 ORDER BY n DESC;
SELECT regexp_extract(nickname, '^[a-z]') AS first, COUNT(*) FROM people WHERE nickname GLOB '[a-m]*' GROUP BY 1;
SELECT COUNT(*) FROM people WHERE regexp_extract(nickname, '(.)(.)', 2) = 'l' OR nickname NOT GLOB 'a*';
SELECT COUNT(*) FROM people WHERE regexp_replace(nickname, '[aeiou]', '') = 'l' OR regexp_replace(nickname, 'l', 'r', 'g') = 'ar';
SELECT SUM(age & 6), SUM(age | 1), AVG(xor(age, 5)), SUM(age << 2), SUM(age >> 1), SUM(~age) FROM people;
SELECT age & 3 AS low, COUNT(*) FROM people WHERE age & (1 << 4) = 16 AND (age | 1) >> 2 > 3 GROUP BY low;
SELECT COUNT(*) FROM people WHERE person_id & ~7 = 8 OR 1 | person_id & 4 << 1 = 0;
SELECT AVG(x) FROM people, LATERAL (SELECT age + 1 AS x);
SELECT decade, AVG(t.later) FROM people p CROSS JOIN LATERAL (SELECT p.age // 10, income * 2) AS t(decade, later) GROUP BY decade;
SELECT AVG(y), COUNT(cost) FROM people p CROSS JOIN LATERAL (SELECT p.age + 1 AS x, x * 2 AS y) a LEFT JOIN LATERAL (SELECT x > 30 AS old) b ON TRUE JOIN visits USING (person_id) WHERE old;
SELECT AVG(n), SUM(most) FROM people p LEFT JOIN LATERAL (SELECT COUNT(*) AS n, MAX(cost) FROM visits v WHERE v.person_id = p.person_id) AS t(n, most) ON TRUE;
SELECT half, COUNT(*) FROM people p, (SELECT p.age // 50 AS half) AS t GROUP BY half;
SELECT COUNT(*) FROM people WHERE regexp_replace(nickname, '(.)(.)', '\2\1') = 'la' OR regexp_replace(nickname, '([a-m])|.', '<\0\1>', 'g') = '<bb><o>' OR regexp_replace(sex, 'f', '\\') = '\';
