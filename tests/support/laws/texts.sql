-- Statements of every shape that a text can have, for plans as the binder makes them; support/laws/texts.py reads them.
-- # TEXTS
-- one table
SELECT COUNT(*) FROM people
SELECT sex, COUNT(*) FROM people GROUP BY sex
SELECT age // 10 AS decade, COUNT(*), SUM(age) FROM people WHERE age >= 18 GROUP BY decade
SELECT AVG(income), VAR_SAMP(income), COUNT(income) FROM people WHERE active
SELECT sex, CORR(income, age), REGR_SLOPE(age, income) FILTER (WHERE active) FROM people GROUP BY sex
SELECT year, MODE(clinic), MODE(year) FILTER (WHERE cost > 10) FROM visits GROUP BY year
SELECT GEOMEAN(LEAST(GREATEST(income, 1), 5000)), APPROX_QUANTILE(age, 0.25) FROM people
SELECT COVAR_SAMP(cost, year), REGR_COUNT(cost, points) FROM visits JOIN scores USING (person_id)
SELECT SUM(income) FILTER (WHERE sex = 'f'), COUNT(*) FILTER (WHERE sex = 'm') FROM people
SELECT CASE WHEN age < 18 THEN 'child' WHEN age < 65 THEN 'adult' ELSE 'old' END AS life, COUNT(*) FROM people
    GROUP BY life
SELECT year, clinic, COUNT(*), SUM(cost) FROM visits GROUP BY year, clinic
SELECT clinic, AVG(cost) FROM visits WHERE note IS NULL OR note = 'ill' GROUP BY clinic
SELECT COUNT(DISTINCT person_id) FROM visits WHERE cost > 100
SELECT COUNT(DISTINCT clinic), COUNT(DISTINCT year) FILTER (WHERE cost > 100), COUNT(DISTINCT cost) FROM visits
SELECT year, COUNT(DISTINCT clinic) FROM visits WHERE note = 'ill' GROUP BY year
SELECT sex, COUNT(DISTINCT points), COUNT(DISTINCT weight) FROM people JOIN scores USING (person_id) GROUP BY sex
SELECT points, COUNT(*) FROM scores GROUP BY points
SELECT COUNT(*), SUM(points * points) FROM scores WHERE points BETWEEN -3 AND 3
SELECT MEDIAN(cost), MAX(cost) FROM visits
SELECT EXTRACT(month FROM seen) AS m, COUNT(*) FROM visits GROUP BY m
SELECT COUNT(*) FROM people WHERE nickname LIKE 'a%' AND born > DATE '1970-01-01'
SELECT COUNT(*) FROM people WHERE income IS NULL OR isnan(income)
-- along foreign keys
SELECT p.sex, COUNT(*) FROM visits v JOIN people p ON v.person_id = p.person_id GROUP BY p.sex
SELECT p.sex, AVG(v.cost) FROM people p JOIN visits v USING (person_id) WHERE p.age > 30 GROUP BY p.sex
SELECT COUNT(*) FROM people p LEFT JOIN visits v ON p.person_id = v.person_id WHERE v.visit_id IS NULL
SELECT COUNT(v.visit_id), COUNT(*) FROM people p LEFT JOIN visits v ON p.person_id = v.person_id AND v.year = 2020
SELECT COUNT(*) FROM visits v LEFT JOIN people p ON p.person_id = v.person_id WHERE p.sex IS NULL
SELECT COUNT(*) FROM visits v RIGHT JOIN people p ON v.person_id = p.person_id
SELECT p.sex, COUNT(*) FROM people p, visits v WHERE p.person_id = v.person_id AND v.cost > 10 GROUP BY p.sex
SELECT COUNT(*) FROM people p JOIN visits v ON p.person_id = v.person_id JOIN scores s ON s.person_id = p.person_id
SELECT COUNT(*) FROM visits a JOIN visits b ON a.person_id = b.person_id WHERE a.year < b.year
SELECT COUNT(*) FROM visits a LEFT JOIN visits b ON a.person_id = b.person_id AND a.clinic = b.clinic
    AND a.visit_id < b.visit_id
SELECT COUNT(*) FROM visits v JOIN scores s ON v.person_id = s.person_id WHERE v.cost > s.points
-- with public tables
SELECT c.city, COUNT(*) FROM visits v JOIN clinics c ON v.clinic = c.clinic GROUP BY c.city
SELECT c.city, SUM(v.cost) FROM clinics c JOIN visits v ON v.clinic = c.clinic WHERE c.beds >= 10 GROUP BY c.city
SELECT COUNT(*) FROM visits v LEFT JOIN clinics c ON v.clinic = c.clinic WHERE c.clinic IS NULL
SELECT COUNT(*) FROM visits v, clinics c WHERE v.clinic = c.clinic AND c.city = 'Oslo'
SELECT COUNT(*) FROM people CROSS JOIN clinics
SELECT a.city, COUNT(*) FROM visits v JOIN clinics a ON v.clinic = a.clinic JOIN clinics b ON a.city = b.city
    GROUP BY a.city
SELECT COUNT(*) FROM visits v JOIN clinics c ON v.clinic < c.clinic
SELECT COUNT(*) FROM visits v JOIN (SELECT clinic, city, COUNT(*) AS n FROM clinics GROUP BY clinic, city) c
    ON v.clinic = c.clinic
SELECT x.label, COUNT(*) FROM people p JOIN (VALUES ('f', 'woman'), ('m', 'man'), ('f', 'again')) AS x(code, label)
    ON p.sex = x.code GROUP BY x.label
SELECT COUNT(*) FROM people p LEFT JOIN (VALUES (0.0, 1), (-0.0, 2)) AS z(v, w) ON p.income = z.v
-- lists
SELECT COUNT(*) FROM visits WHERE clinic IN (SELECT clinic FROM clinics WHERE city = 'Oslo')
SELECT COUNT(*) FROM visits WHERE clinic NOT IN (SELECT clinic FROM clinics WHERE beds > 5)
SELECT COUNT(*) FROM visits WHERE clinic NOT IN (SELECT city FROM clinics)
SELECT COUNT(*) FROM visits v WHERE EXISTS (SELECT 1 FROM clinics c WHERE c.clinic = v.clinic AND c.beds > 5)
SELECT COUNT(*) FROM visits v WHERE NOT EXISTS (SELECT 1 FROM clinics c WHERE c.clinic = v.clinic)
SELECT CASE WHEN clinic IN (SELECT clinic FROM clinics WHERE city = 'Rome') THEN 'rome' ELSE 'else' END AS place, COUNT(*)
    FROM visits GROUP BY place
SELECT COUNT(*) FROM people p WHERE EXISTS (SELECT 1 FROM visits v WHERE v.person_id = p.person_id AND v.cost > 100)
SELECT COUNT(*) FROM people p WHERE NOT EXISTS (SELECT 1 FROM visits v WHERE v.person_id = p.person_id)
SELECT COUNT(*) FROM people WHERE person_id IN (SELECT person_id FROM scores WHERE points > 0)
SELECT COUNT(*) FROM people WHERE person_id NOT IN (SELECT person_id FROM scores WHERE points > 0)
SELECT COUNT(*) FROM visits v WHERE EXISTS (SELECT 1 FROM visits w WHERE w.person_id = v.person_id AND w.clinic = v.clinic
    AND w.year = 2019)
SELECT SUM(CASE WHEN person_id IN (SELECT person_id FROM scores) THEN age ELSE 0 END) FROM people
SELECT COUNT(*) FROM people p WHERE EXISTS (SELECT 1 FROM visits v JOIN clinics c ON v.clinic = c.clinic
    WHERE v.person_id = p.person_id AND c.city = 'Oslo')
-- subqueries for each entity
SELECT AVG(n) FROM (SELECT person_id, COUNT(*) AS n FROM visits GROUP BY person_id) AS t
SELECT n, COUNT(*) FROM (SELECT person_id, COUNT(*) AS n FROM visits GROUP BY person_id HAVING COUNT(*) > 1) AS t
    GROUP BY n
SELECT SUM(total) FROM (SELECT person_id, clinic, SUM(cost) AS total FROM visits GROUP BY person_id, clinic) AS t
SELECT clinic, AVG(m) FROM (SELECT person_id, clinic, MAX(cost) AS m, MIN(cost) AS low, AVG(cost) AS a FROM visits
    GROUP BY person_id, clinic) AS t GROUP BY clinic
SELECT p.sex, AVG(t.n) FROM people p JOIN (SELECT person_id, COUNT(*) AS n FROM visits GROUP BY person_id) t
    ON p.person_id = t.person_id GROUP BY p.sex
SELECT p.sex, SUM(COALESCE(t.n, 0)) FROM people p LEFT JOIN (SELECT person_id, COUNT(DISTINCT clinic) AS n FROM visits
    GROUP BY person_id) t ON p.person_id = t.person_id GROUP BY p.sex
SELECT COUNT(*) FROM (SELECT p.person_id, MIN(s.points) AS low FROM people p JOIN scores s ON s.person_id = p.person_id
    GROUP BY p.person_id) AS t WHERE low < 0
SELECT AVG(t.most) FROM (SELECT person_id, MAX(n) AS most FROM (SELECT person_id, year, COUNT(*) AS n FROM visits
    GROUP BY person_id, year) AS y GROUP BY person_id) AS t
SELECT AVG(t.n), SUM(t.old) FROM people p, LATERAL (SELECT COUNT(*), MAX(v.cost) FROM visits v WHERE v.person_id = p.person_id) AS t(n, old)
SELECT half, SUM(cost) FROM people p, LATERAL (SELECT p.age // 50 AS half) AS t JOIN visits v ON v.person_id = p.person_id GROUP BY half
-- DISTINCT, UNION ALL, WITH
SELECT COUNT(*) FROM (SELECT DISTINCT person_id, clinic FROM visits) AS t
SELECT clinic, COUNT(*) FROM (SELECT DISTINCT person_id, clinic, year FROM visits) AS t GROUP BY clinic
SELECT COUNT(*) FROM (SELECT DISTINCT clinic, year FROM visits) AS t
SELECT COUNT(*) FROM (SELECT DISTINCT sex FROM people) AS t
SELECT COUNT(*) FROM (SELECT DISTINCT income FROM people) AS t
SELECT COUNT(*) FROM (SELECT DISTINCT person_id FROM visits) AS t
SELECT COUNT(*) FROM (SELECT person_id, clinic AS what FROM visits UNION ALL SELECT person_id, nickname FROM people) AS u
    WHERE what = 'a'
SELECT COUNT(*) FROM (SELECT clinic FROM visits UNION ALL SELECT clinic FROM clinics) AS u
SELECT COUNT(*) FROM (SELECT DISTINCT clinic FROM (SELECT clinic FROM visits UNION ALL SELECT clinic FROM clinics) AS u)
    AS d
SELECT COUNT(*), SUM(x) FROM (SELECT cost AS x FROM visits UNION ALL SELECT points FROM scores UNION ALL SELECT age
    FROM people) AS u WHERE x > 0
SELECT person, COUNT(*) FROM (SELECT person_id AS person FROM scores UNION ALL SELECT person_id FROM visits) AS u
    GROUP BY person
WITH old AS (SELECT person_id, age FROM people WHERE age > 50) SELECT COUNT(*) FROM old JOIN visits v
    ON v.person_id = old.person_id
WITH a AS (SELECT person_id, COUNT(*) AS n FROM visits GROUP BY person_id), b AS (SELECT * FROM a WHERE n > 1)
    SELECT COUNT(*) FROM b JOIN people p ON p.person_id = b.person_id WHERE p.sex = 'f'
WITH v AS (SELECT person_id, clinic, cost FROM visits WHERE cost > 0) SELECT c.city, COUNT(*) FROM v
    JOIN clinics c ON c.clinic = v.clinic WHERE v.person_id IN (SELECT person_id FROM v WHERE cost > 300) GROUP BY c.city
SELECT COUNT(*) FROM (SELECT p.person_id, v.clinic FROM people p LEFT JOIN visits v ON p.person_id = v.person_id) AS t
    WHERE clinic IS NULL
SELECT d.clinic, COUNT(*) FROM (SELECT DISTINCT person_id, clinic FROM visits) d
    JOIN (SELECT DISTINCT person_id FROM scores) s ON d.person_id = s.person_id GROUP BY d.clinic
-- window functions over each entity's rows
SELECT AVG(change) FROM (SELECT cost - LAG(cost) OVER (PARTITION BY person_id ORDER BY seen) AS change FROM visits) AS t
SELECT clinic, COUNT(*), AVG(cost) FROM (SELECT * FROM visits QUALIFY ROW_NUMBER() OVER (PARTITION BY person_id
    ORDER BY cost DESC) = 1) AS t GROUP BY clinic
SELECT COUNT(*) FROM (SELECT SUM(cost) OVER (PARTITION BY person_id ORDER BY seen, visit_id) AS total FROM visits) AS t
    WHERE total > 300
SELECT n, COUNT(*) FROM (SELECT DENSE_RANK() OVER (PARTITION BY person_id ORDER BY year DESC) AS n FROM visits) AS t GROUP BY n
SELECT part, AVG(cost) FROM (SELECT cost, NTILE(2) OVER (PARTITION BY person_id ORDER BY cost) AS part FROM visits) AS t
    GROUP BY part
SELECT first, COUNT(*) FROM (SELECT FIRST_VALUE(clinic) OVER w AS first, LAST_VALUE(clinic) OVER w AS last FROM visits
    WINDOW w AS (PARTITION BY person_id ORDER BY year)) AS t WHERE last <> first GROUP BY first
SELECT COUNT(*), SUM(up) FROM (SELECT points - LAG(points, 1, 0) OVER w AS up, ROW_NUMBER() OVER w AS n, COUNT(*) OVER w AS m
    FROM scores WINDOW w AS (PARTITION BY person_id ORDER BY points DESC)) AS t WHERE n <= 2
SELECT sex, AVG(cost) FROM (SELECT p.sex, v.cost, ROW_NUMBER() OVER (PARTITION BY p.person_id ORDER BY v.seen) AS n
    FROM people p JOIN visits v USING (person_id)) AS t WHERE n BETWEEN 1 AND 2 GROUP BY sex
SELECT COUNT(*) FROM (SELECT MAX(cost) OVER (PARTITION BY person_id) AS most, cost FROM visits) AS t WHERE cost = most
-- over rows of many entities, where few are looked at, or few agree
SELECT AVG(change) FROM (SELECT cost - LAG(cost) OVER (ORDER BY seen) AS change FROM visits) AS t
SELECT clinic, SUM(near) FROM (SELECT clinic, COUNT(*) OVER (PARTITION BY clinic ORDER BY seen ROWS BETWEEN 2 PRECEDING AND
    1 FOLLOWING) AS near FROM visits) AS t GROUP BY clinic
SELECT clinic, COUNT(*), SUM(cost) FROM (SELECT * FROM visits QUALIFY ROW_NUMBER() OVER (PARTITION BY clinic
    ORDER BY cost DESC) <= 2) AS t GROUP BY clinic
SELECT n, COUNT(*) FROM (SELECT clinic, ROW_NUMBER() OVER (PARTITION BY clinic ORDER BY seen DESC) AS n FROM visits) AS t
    WHERE n <= 3 GROUP BY n
SELECT COUNT(*), SUM(r) FROM (SELECT RANK() OVER (PARTITION BY year ORDER BY cost) AS r FROM (SELECT * FROM visits QUALIFY
    ROW_NUMBER() OVER (PARTITION BY year ORDER BY visit_id) <= 2) AS t) AS u
-- rows of several entities
SELECT COUNT(*) FROM visits v JOIN visits w ON v.clinic = w.clinic AND v.visit_id < w.visit_id
SELECT v.clinic, COUNT(*) FROM visits v, visits w WHERE v.clinic = w.clinic AND v.person_id <> w.person_id
    GROUP BY v.clinic
SELECT COUNT(*) FROM people p CROSS JOIN people q WHERE p.age < q.age
SELECT COUNT(*) FROM scores s JOIN visits v ON s.points = v.visit_id JOIN clinics c ON c.clinic = v.clinic
SELECT COUNT(*) FROM visits v JOIN visits w ON v.clinic = w.clinic JOIN scores s ON s.person_id = v.person_id
SELECT COUNT(*) FROM visits v JOIN visits w ON v.clinic = w.clinic JOIN visits x ON x.clinic = w.clinic
SELECT COUNT(*) FROM (SELECT v.person_id, w.person_id AS other, COUNT(*) AS n FROM visits v JOIN visits w
    ON v.clinic = w.clinic GROUP BY v.person_id, w.person_id) AS t WHERE n > 1
SELECT COUNT(*) FROM (SELECT DISTINCT v.person_id, w.person_id AS other FROM visits v JOIN visits w
    ON v.clinic = w.clinic) AS t
SELECT COUNT(*) FROM (SELECT v.clinic, w.cost FROM visits v JOIN visits w ON v.year = w.year UNION ALL
    SELECT v.clinic, w.cost FROM visits v JOIN visits w ON v.clinic = w.clinic) AS u WHERE cost > 10
SELECT COUNT(*) FROM (SELECT v.person_id AS p FROM visits v JOIN visits w ON v.clinic = w.clinic UNION ALL
    SELECT w.person_id FROM visits v JOIN visits w ON v.clinic = w.clinic) AS ends JOIN scores s ON s.person_id = ends.p
SELECT COUNT(*) FROM visits v JOIN visits w ON v.clinic = w.clinic WHERE EXISTS (SELECT 1 FROM scores s
    WHERE s.person_id = w.person_id AND s.points > 0)
SELECT COUNT(*) FROM (SELECT p.person_id, v.clinic FROM people p JOIN visits v ON p.age = v.visit_id) t LEFT JOIN scores s
    ON s.person_id = t.person_id WHERE s.points IS NULL
-- nothing private
SELECT city, COUNT(*) FROM clinics GROUP BY city
SELECT COUNT(*) FROM clinics a JOIN clinics b ON a.city = b.city
SELECT SUM(beds) FROM (SELECT city, MAX(beds) AS beds FROM clinics GROUP BY city) AS t
-- public lists and joins that are empty
SELECT COUNT(*) FROM visits v JOIN clinics c ON v.clinic = c.clinic WHERE c.beds > 1000
SELECT COUNT(*) FROM visits v JOIN (SELECT * FROM clinics WHERE beds > 1000) c ON v.clinic = c.clinic
SELECT COUNT(*) FROM visits WHERE clinic NOT IN (SELECT clinic FROM clinics WHERE beds > 1000)
-- # HOUSEHOLD
SELECT region, COUNT(*) FROM households GROUP BY region
SELECT h.region, COUNT(*) FROM households h JOIN people p ON p.household_id = h.household_id GROUP BY h.region
SELECT h.region, AVG(v.cost) FROM households h JOIN people p ON p.household_id = h.household_id
    JOIN visits v ON v.person_id = p.person_id GROUP BY h.region
SELECT COUNT(*) FROM households h LEFT JOIN people p ON p.household_id = h.household_id WHERE p.person_id IS NULL
SELECT AVG(n) FROM (SELECT household_id, COUNT(*) AS n FROM people GROUP BY household_id) AS t
SELECT COUNT(*) FROM people a JOIN people b ON a.household_id = b.household_id WHERE a.person_id < b.person_id
SELECT COUNT(*) FROM households h WHERE EXISTS (SELECT 1 FROM people p WHERE p.household_id = h.household_id
    AND p.age < 18)
SELECT COUNT(*) FROM (SELECT DISTINCT household_id, sex FROM people) AS t
-- # ALGEBRA
-- Rows of many entities that meet, are compared or are put together: most need limits of keys.
-- joins of all kinds, by keys of one entity, of others, and with public rows
SELECT COUNT(*) FROM people FULL JOIN visits USING (person_id)
SELECT COUNT(v.cost), COUNT(p.age) FROM people p FULL JOIN visits v ON p.person_id = v.person_id AND v.year = 2020
SELECT COUNT(*) FROM scores FULL JOIN visits USING (person_id) FULL JOIN people USING (person_id)
SELECT COUNT(*) FROM visits v LEFT JOIN visits w ON v.clinic = w.clinic
SELECT COUNT(*) FROM visits v RIGHT JOIN scores s ON v.year = s.points + 2018
SELECT COUNT(*) FROM visits v FULL JOIN visits w ON v.clinic = w.clinic AND v.year = w.year
SELECT COUNT(*) FROM visits v FULL JOIN people p ON v.visit_id = p.age
SELECT COUNT(*) FROM visits v FULL JOIN visits w ON v.person_id = w.person_id AND v.year < w.year
SELECT COUNT(*) FROM people p LEFT JOIN visits v ON p.age = v.year
SELECT COUNT(*) FROM people p LEFT JOIN visits v ON p.person_id = v.visit_id
SELECT COUNT(*) FROM people p FULL JOIN people q ON p.nickname = q.nickname
SELECT COUNT(*) FROM people p JOIN people q ON p.income = q.income
SELECT COUNT(*) FROM people p LEFT JOIN people q ON p.income IS NOT DISTINCT FROM q.weight
SELECT COUNT(*) FROM visits v JOIN visits w ON v.clinic = w.clinic JOIN visits x ON x.clinic = w.clinic
SELECT COUNT(*) FROM (visits v JOIN visits w ON v.year = w.year) LEFT JOIN scores s ON s.points = v.year
SELECT COUNT(*) FROM clinics c LEFT JOIN visits v ON c.clinic = v.clinic
SELECT COUNT(*) FROM visits v RIGHT JOIN clinics c ON c.clinic = v.clinic AND v.year = 2020
SELECT COUNT(*) FROM visits v FULL JOIN clinics c ON v.clinic = c.clinic
SELECT COUNT(*) FROM visits v FULL JOIN clinics c ON v.clinic < c.clinic
SELECT COUNT(*) FROM clinics c LEFT JOIN visits v ON c.clinic = v.clinic LEFT JOIN people p ON p.age = c.beds
SELECT COUNT(*) FROM (VALUES (2019), (2020), (NULL)) AS y(year) LEFT JOIN visits v ON v.year = y.year
SELECT COUNT(*) FROM visits NATURAL FULL JOIN clinics
-- lists
SELECT COUNT(*) FROM visits v SEMI JOIN visits w ON v.clinic = w.clinic AND v.visit_id <> w.visit_id
SELECT COUNT(*) FROM visits v ANTI JOIN visits w ON v.clinic = w.clinic AND v.visit_id < w.visit_id
SELECT COUNT(*) FROM people p SEMI JOIN visits v USING (person_id)
SELECT COUNT(*) FROM people p ANTI JOIN visits v ON p.person_id = v.person_id AND v.cost > p.age
SELECT COUNT(*) FROM clinics ANTI JOIN visits USING (clinic)
SELECT COUNT(*) FROM clinics WHERE clinic IN (SELECT clinic FROM visits)
SELECT COUNT(*) FILTER (WHERE EXISTS (SELECT 1 FROM visits v WHERE v.clinic = c.clinic AND v.year > c.beds)) FROM clinics c
SELECT COUNT(*) FROM people p WHERE NOT EXISTS (SELECT 1 FROM visits v WHERE v.year = p.person_id + 2017)
SELECT COUNT(*) FROM people WHERE age IN (SELECT age FROM people WHERE sex = 'f')
SELECT COUNT(*) FROM visits WHERE clinic IN (SELECT nickname FROM people) OR year IN (SELECT points + 2018 FROM scores)
SELECT COUNT(*) FROM visits WHERE year IS NOT NULL AND year NOT IN (SELECT year FROM visits WHERE cost > 100
    AND year IS NOT NULL)
-- set operations
SELECT COUNT(*) FROM (SELECT clinic FROM visits UNION SELECT nickname FROM people) AS u
SELECT COUNT(*) FROM (SELECT person_id, clinic FROM visits UNION SELECT person_id, nickname FROM people) AS u
SELECT COUNT(*) FROM (SELECT clinic FROM visits INTERSECT SELECT clinic FROM clinics) AS u
SELECT COUNT(*) FROM (SELECT clinic FROM visits INTERSECT ALL SELECT clinic FROM visits WHERE year > 2019) AS u
SELECT COUNT(*) FROM (SELECT person_id FROM visits INTERSECT ALL SELECT person_id FROM scores) AS u
SELECT COUNT(*) FROM (SELECT visit_id FROM visits INTERSECT SELECT person_id FROM people) AS u
SELECT COUNT(*) FROM (SELECT clinic FROM clinics EXCEPT SELECT clinic FROM visits) AS u
SELECT COUNT(*) FROM (SELECT clinic FROM visits EXCEPT ALL SELECT clinic FROM visits WHERE year > 2018) AS u
SELECT COUNT(*) FROM (SELECT person_id, clinic FROM visits EXCEPT ALL SELECT person_id, 'a' FROM scores) AS u
SELECT COUNT(*) FROM (SELECT person_id FROM people EXCEPT SELECT person_id FROM visits) AS u
SELECT COUNT(*) FROM (SELECT income FROM people EXCEPT SELECT weight FROM people) AS u
SELECT COUNT(*) FROM (SELECT clinic FROM visits UNION SELECT city FROM clinics EXCEPT ALL SELECT nickname FROM people
    INTERSECT SELECT sex FROM people) AS u
-- groups that mix entities
SELECT COUNT(*), SUM(LEAST(n, 5)) FROM (SELECT clinic, COUNT(*) AS n FROM visits GROUP BY clinic) AS t
SELECT COUNT(*) FROM (SELECT clinic, year, AVG(cost) AS c FROM visits GROUP BY clinic, year HAVING COUNT(*) > 1) AS t
    WHERE c > 100
SELECT SUM(LEAST(GREATEST(a, 0), 100)) FROM (SELECT AVG(age) AS a, COUNT(*) AS n FROM people) AS t
SELECT SUM(LEAST(n, 3)) FROM (SELECT v.clinic, COUNT(*) AS n FROM visits v JOIN visits w ON v.clinic = w.clinic
    GROUP BY v.clinic) AS t
SELECT COUNT(*) FROM clinics c LEFT JOIN (SELECT clinic, COUNT(*) AS n FROM visits GROUP BY clinic) t
    ON c.clinic = t.clinic WHERE t.n > 2
SELECT COUNT(*) FROM visits v JOIN (SELECT clinic, MAX(cost) AS most FROM visits GROUP BY clinic) t
    ON v.clinic = t.clinic AND v.cost = t.most
SELECT COUNT(*) FROM visits v JOIN (SELECT year, COUNT(*) AS n FROM visits GROUP BY year) t ON v.year = t.year WHERE n > 3
SELECT COUNT(*) FROM (SELECT DISTINCT clinic, n FROM (SELECT clinic, year, COUNT(*) AS n FROM visits GROUP BY clinic, year)
    AS t) AS d
