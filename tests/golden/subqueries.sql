-- Statements with subqueries as values, answered without noise and compared with DuckDB's own answers, as in answers.sql.

-- released first
SELECT COUNT(*) FROM people WHERE income > (SELECT AVG(income) FROM people);
SELECT COUNT(*), AVG(age) FROM people WHERE age >= (SELECT AVG(age) FROM people WHERE sex = 'f');
SELECT COUNT(*) FROM visits WHERE cost > (SELECT AVG(cost) FROM visits) AND year = 2020;
SELECT COUNT(*) FROM visits WHERE cost > (SELECT AVG(cost) FROM visits) / 2 OR cost < (SELECT STDDEV(cost) FROM visits);
SELECT COUNT(*) FROM people WHERE age BETWEEN (SELECT AVG(age) - 10 FROM people) AND (SELECT AVG(age) + 10 FROM people);
SELECT COUNT(*) FROM people WHERE NOT age > (SELECT COUNT(*) / 4 FROM people);
SELECT sex, COUNT(*) FROM people WHERE income > (SELECT AVG(income) FROM people) GROUP BY sex;
SELECT income > (SELECT AVG(income) FROM people) AS rich, COUNT(*), AVG(age) FROM people GROUP BY rich;
SELECT CASE WHEN cost > (SELECT AVG(cost) FROM visits) THEN 'dear' ELSE 'cheap' END AS kind, COUNT(*) FROM visits GROUP BY kind;
SELECT COUNT(*) FILTER (WHERE age > (SELECT AVG(age) FROM people)), COUNT(*) FROM people;
SELECT SUM(CASE WHEN age > (SELECT AVG(age) FROM people) THEN income ELSE 0 END) FROM people;
SELECT SUM(CASE WHEN cost > (SELECT AVG(cost) FROM visits) THEN 1 ELSE 0 END) FROM visits;
SELECT SUM(age - (SELECT AVG(age) FROM people)) FROM people WHERE sex = 'm';
SELECT AVG(abs(age - (SELECT AVG(age) FROM people))) FROM people;
SELECT SUM(LEAST(income, (SELECT AVG(income) FROM people))) FROM people WHERE income IS NOT NULL;
SELECT AVG(income) - (SELECT AVG(income) FROM people) FROM people WHERE sex = 'f';
SELECT sex, COUNT(*) * 1.0 / (SELECT COUNT(*) FROM people) AS share FROM people GROUP BY sex;
SELECT sex, AVG(age) / (SELECT AVG(age) FROM people) AS ratio FROM people GROUP BY sex HAVING COUNT(*) > 3;
SELECT clinic, COUNT(*) FROM visits GROUP BY clinic HAVING COUNT(*) > (SELECT COUNT(*) FROM visits) / 5;
SELECT year, AVG(cost) AS m FROM visits GROUP BY year HAVING AVG(cost) > (SELECT AVG(cost) FROM visits);
SELECT year, COUNT(*) AS n FROM visits GROUP BY year ORDER BY abs(n - (SELECT COUNT(*) FROM visits) / 5), year;
SELECT (SELECT COUNT(*) FROM people) AS people, (SELECT COUNT(*) FROM visits) AS visits;
SELECT (SELECT COUNT(*) FROM visits) * 1.0 / (SELECT COUNT(*) FROM people);
SELECT (SELECT AVG(age) > 40 FROM people), CASE WHEN (SELECT COUNT(*) FROM people) > 10 THEN 'many' ELSE 'few' END;
SELECT COUNT(*) FROM people WHERE income > (SELECT AVG(income) FROM people WHERE age > (SELECT AVG(age) FROM people));
SELECT COUNT(*) FROM people WHERE age > (SELECT AVG(age) FROM people) AND income < (SELECT AVG(income) FROM people WHERE age >
    (SELECT AVG(age) FROM people));
SELECT COUNT(*) FROM people WHERE age > (WITH f AS (SELECT * FROM people WHERE sex = 'f') SELECT AVG(age) FROM f);
WITH f AS (SELECT * FROM people WHERE sex = 'f') SELECT COUNT(*) FROM people WHERE age > (SELECT AVG(age) FROM f);
SELECT COUNT(*) FROM people JOIN visits ON people.person_id = visits.person_id AND cost > (SELECT AVG(cost) FROM visits);
SELECT SUM(n) FROM (SELECT person_id, COUNT(*) AS n FROM visits GROUP BY person_id HAVING COUNT(*) > (SELECT COUNT(*) * 1.0 /
    COUNT(DISTINCT person_id) FROM visits)) AS t;
SELECT COUNT(*) FROM (SELECT age - (SELECT AVG(age) FROM people) AS x FROM people) AS t WHERE x > 5;
SELECT COUNT(*) FROM people p WHERE EXISTS (SELECT 1 FROM visits v WHERE v.person_id = p.person_id AND v.cost >
    (SELECT AVG(cost) FROM visits));
SELECT COUNT(*) FROM people WHERE age > (SELECT AVG(n) * 10 FROM (SELECT person_id, COUNT(*) AS n FROM visits GROUP BY person_id)
    AS t);
SELECT COUNT(*) FROM people WHERE age > (SELECT AVG(age) FROM people WHERE FALSE);
SELECT COUNT(*) FROM people WHERE age > COALESCE((SELECT AVG(age) FROM people WHERE FALSE), 30);
SELECT COUNT(*) FROM people WHERE age > 20 + (SELECT COUNT(*) FROM people HAVING COUNT(*) > 100000);
SELECT SUM(LEAST(age, (SELECT AVG(age) FROM people WHERE FALSE))) FROM people;
SELECT COUNT(*) FROM clinics WHERE beds < (SELECT AVG(age) FROM people);
SELECT city, COUNT(*) FROM clinics WHERE beds * 100 > (SELECT COUNT(*) FROM visits) GROUP BY city;
SELECT COUNT(*), MAX(beds) FROM clinics WHERE beds > (SELECT COUNT(*) FROM clinics WHERE beds < (SELECT AVG(age) FROM people));
SELECT (SELECT COUNT(*) FROM clinics WHERE beds < (SELECT AVG(age) FROM people));

-- public ones are constants
SELECT COUNT(*) FROM people WHERE age > (SELECT AVG(beds) FROM clinics);
SELECT COUNT(*) FROM people WHERE age > (SELECT MEDIAN(beds) FROM clinics) + (SELECT STDDEV(beds) FROM clinics);
SELECT COUNT(*) FROM people WHERE age > (SELECT MAX(beds) FROM clinics WHERE city = 'Oslo');
SELECT SUM(age * (SELECT MAX(beds) FROM clinics)) FROM people;
SELECT COUNT(*) FROM visits WHERE clinic = (SELECT clinic FROM clinics WHERE city = 'Rome');
SELECT COUNT(*) FROM people WHERE age > (SELECT beds FROM clinics WHERE beds > 1000);
SELECT COUNT(*) FROM people WHERE age > (SELECT 1 + 2);
SELECT COUNT(*) FROM people WHERE age > (VALUES (30));
SELECT COUNT(*) FROM people WHERE age > (SELECT SUM(beds) FROM clinics HAVING COUNT(*) > 100);
SELECT age // (SELECT MAX(beds) FROM clinics) AS part, COUNT(*) FROM people GROUP BY part;
SELECT COUNT(*) FROM people WHERE age > (SELECT beds FROM clinics WHERE city = 'Rome' UNION ALL SELECT 1 WHERE FALSE);
SELECT (SELECT SUM(beds) FROM clinics) - (SELECT MAX(beds) FROM clinics);

-- linked to the row around
SELECT COUNT(*) FROM visits v WHERE v.cost > (SELECT AVG(w.cost) FROM visits w WHERE w.person_id = v.person_id);
SELECT COUNT(*) FROM visits v WHERE cost > (SELECT AVG(cost) FROM visits WHERE person_id = v.person_id AND year > 2018);
SELECT AVG(n) FROM (SELECT (SELECT COUNT(*) FROM visits v WHERE v.person_id = p.person_id) AS n FROM people p) AS t;
SELECT n, COUNT(*) FROM (SELECT p.person_id, (SELECT COUNT(*) FROM visits v WHERE v.person_id = p.person_id) AS n FROM people p)
    AS t GROUP BY n;
SELECT (SELECT COUNT(*) FROM visits v WHERE v.person_id = p.person_id) AS n, COUNT(*), AVG(age) FROM people p GROUP BY n;
SELECT sex, SUM((SELECT COUNT(*) FROM visits v WHERE v.person_id = p.person_id)) FROM people p GROUP BY sex;
SELECT SUM((SELECT SUM(cost) FROM visits v WHERE v.person_id = p.person_id)) FROM people p;
SELECT COUNT((SELECT SUM(points) FROM scores s WHERE s.person_id = p.person_id)) FROM people p;
SELECT COUNT(*) FROM people p WHERE (SELECT COUNT(*) FROM visits v WHERE v.person_id = p.person_id) = 0;
SELECT COUNT(*) FROM people p WHERE (SELECT COUNT(*) + 1 FROM visits v WHERE v.person_id = p.person_id) > 2;
SELECT COUNT(*) FROM people p WHERE (SELECT COALESCE(SUM(cost), -1) FROM visits v WHERE v.person_id = p.person_id) < 0;
SELECT COUNT(*) FROM people p WHERE (SELECT CASE WHEN COUNT(*) = 0 THEN 'none' ELSE 'some' END FROM visits v WHERE v.person_id =
    p.person_id) = 'none';
SELECT COUNT(*) FROM people p WHERE (SELECT MIN(year) FROM visits v WHERE v.person_id = p.person_id HAVING COUNT(*) > 1) = 2018;
SELECT COUNT(*) FROM people p WHERE (SELECT COUNT(DISTINCT clinic) FROM visits v WHERE v.person_id = p.person_id) >= 2;
SELECT COUNT(*) FROM people p WHERE (SELECT MAX(cost) - p.age FROM visits v WHERE v.person_id = p.person_id) > 300;
SELECT COUNT(*) FROM people p WHERE (SELECT COUNT(*) FROM visits v WHERE p.person_id = v.person_id AND v.clinic IN
    (SELECT clinic FROM clinics WHERE city = 'Oslo')) > 1;
SELECT COUNT(*) FROM people p WHERE (SELECT COUNT(*) FROM visits v JOIN clinics c ON c.clinic = v.clinic WHERE v.person_id =
    p.person_id AND c.beds > 5) > 0 AND age > 30;
SELECT COUNT(*) FROM visits v WHERE (SELECT COUNT(*) FROM visits w WHERE w.person_id = v.person_id AND w.year = v.year) > 1;
SELECT COUNT(*) FROM people p JOIN visits v ON v.person_id = p.person_id WHERE v.cost >= (SELECT MAX(w.cost) FROM visits w
    WHERE w.person_id = p.person_id);
SELECT COUNT(*) FROM people p, visits v WHERE v.person_id = p.person_id AND v.cost > (SELECT AVG(w.cost) FROM visits w WHERE
    w.person_id = v.person_id);
SELECT COUNT(*) FROM visits v WHERE v.cost > (SELECT AVG(w.cost) FROM visits w WHERE w.person_id = v.person_id AND w.cost >
    (SELECT AVG(cost) FROM visits));
SELECT COUNT(*) FROM people p WHERE (SELECT SUM(cost) FROM visits v WHERE v.person_id = p.person_id AND v.cost >= (SELECT
    AVG(w.cost) FROM visits w WHERE w.person_id = v.person_id)) > 400;
SELECT COUNT(*) FROM people p WHERE (SELECT COUNT(*) FILTER (WHERE year = 2020) FROM visits v WHERE v.person_id = p.person_id) = 1;
SELECT COUNT(*) FROM visits v WHERE (SELECT SUM(c.beds) FROM clinics c WHERE c.clinic = v.clinic) > 5;
SELECT COUNT(*) FROM visits v WHERE (SELECT COUNT(*) FROM clinics c WHERE c.clinic = v.clinic) = 0;
SELECT COUNT(*) FROM visits v WHERE v.cost > (SELECT AVG(c.beds) * v.year / 200 FROM clinics c);
SELECT COUNT(*) FROM people p WHERE (SELECT COUNT(*) FROM clinics c WHERE c.beds = p.age) = 1;

-- a row found by a key
SELECT COUNT(*) FROM visits v WHERE (SELECT c.city FROM clinics c WHERE c.clinic = v.clinic) = 'Oslo';
SELECT (SELECT c.city FROM clinics c WHERE c.clinic = v.clinic) IS NULL AS lost, COUNT(*) FROM visits v GROUP BY lost;
SELECT COUNT(*) FROM visits v WHERE (SELECT p.age FROM people p WHERE p.person_id = v.person_id) > 40;
SELECT AVG(cost) FROM visits v WHERE (SELECT p.sex || '!' FROM people p WHERE p.person_id = v.person_id AND p.active) = 'f!';
SELECT SUM((SELECT p.age FROM people p WHERE p.person_id = s.person_id)) FROM scores s;
