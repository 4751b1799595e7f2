-- Refused statements, each below its refusal: class and code of the error, and the reason.
--
-- They use the schema and the policy of tests/support/worlds.py, like those of accepted.sql. A blank line ends a block. Tests
-- check that each is refused with exactly this class and code, with a reason that begins like this, and at a place in the text.

-- # what is not a query

-- Unsupported not-a-query: only queries are answered
INSERT INTO people VALUES (1)

-- Unsupported not-a-query: only queries are answered
UPDATE people SET age = 3

-- Unsupported not-a-query: only queries are answered
DELETE FROM people

-- Unsupported not-a-query: only queries are answered
CREATE TABLE t AS SELECT * FROM people

-- Unsupported not-a-query: only queries are answered
DROP TABLE people

-- Unsupported not-a-query: only queries are answered
COPY people TO 'people.csv'

-- Unsupported not-a-query: only queries are answered
ATTACH 'other.duckdb' AS other

-- Unsupported not-a-query: only queries are answered
PRAGMA database_list

-- Unsupported not-a-query: only queries are answered
SET threads = 1

-- Unsupported not-a-query: only queries are answered
INSTALL httpfs

-- Unsupported not-a-query: only queries are answered
LOAD httpfs

-- Unsupported not-a-query: only queries are answered
CALL pragma_version()

-- Unsupported not-a-query: only queries are answered
EXPORT DATABASE 'folder'

-- Unsupported not-a-query: only queries are answered
CHECKPOINT

-- Unsupported not-a-query: only queries are answered
BEGIN TRANSACTION

-- Unsupported not-a-query: only queries are answered
PREPARE q AS SELECT COUNT(*) FROM people

-- Unsupported not-a-query: only queries are answered
VACUUM

-- Unsupported not-a-query: only queries are answered
SUMMARIZE people

-- Unsupported not-a-query: only queries are answered
PIVOT visits ON year USING SUM(cost)

-- Unsupported not-a-query: only queries are answered
SELCT COUNT(*) FROM people

-- Unsupported not-a-query: only queries are answered
42

-- Unsupported explain: EXPLAIN must be followed by PRIVACY: it shows what a query would reveal and cost
EXPLAIN SELECT COUNT(*) FROM people

-- Unsupported explain: EXPLAIN must be followed by PRIVACY: it shows what a query would reveal and cost
EXPLAIN ANALYZE SELECT COUNT(*) FROM people

-- SqlError syntax: a query is missing here
EXPLAIN PRIVACY

-- Unsupported not-a-query: only queries are answered
EXPLAIN PRIVACY DELETE FROM people

-- SqlError syntax: SHOW takes BUDGET, PERIODS, RELEASES, STANDING QUERIES or TABLES
SHOW COLUMNS

-- SqlError syntax: SHOW takes BUDGET, PERIODS, RELEASES, STANDING QUERIES or TABLES
SHOW

-- SqlError syntax: DESCRIBE takes the name of one table
DESCRIBE SELECT COUNT(*) FROM people

-- SqlError syntax: DESCRIBE takes the name of one table
DESCRIBE

-- Unsupported not-a-query: only queries are answered
VALUES (1), (2)

-- # one statement at a time, without tricks

-- Unsupported many-statements: one statement at a time
SELECT COUNT(*) FROM people; SELECT COUNT(*) FROM visits

-- Unsupported many-statements: one statement at a time
SELECT COUNT(*) FROM people; DROP TABLE people

-- SqlError syntax: a text, a quoted name or a comment is not closed
SELECT COUNT(*) /* FROM people

-- SqlError syntax: a text, a quoted name or a comment is not closed
SELECT COUNT(*) FROM people WHERE sex = 'f

-- SqlError syntax: a text, a quoted name or a comment is not closed
SELECT COUNT(*) FROM "people

-- Unsupported literal: texts with Unicode escapes are not accepted
SELECT COUNT(*) FROM people WHERE sex = U&'\0066'

-- Unsupported literal: texts between dollar signs are not accepted
SELECT COUNT(*) FROM people WHERE sex = $$f$$

-- Unsupported not-accepted: texts with escapes are not answered
SELECT COUNT(*) FROM people WHERE sex = E'f\n'

-- SqlError syntax: 66 is not expected here
SELECT COUNT(*) FROM people WHERE sex = x'66'

-- SqlError syntax: xFF is not expected here
SELECT COUNT(*) FROM people WHERE age = 0xFF

-- # syntax

-- SqlError syntax: people is not expected here
SELECT COUNT(*) FORM people

-- SqlError syntax: a bracket is not closed
SELECT COUNT(* FROM people

-- SqlError syntax: ) closes nothing
SELECT COUNT(*)) FROM people

-- SqlError syntax: FROM is missing before JOIN
SELECT COUNT(*) JOIN visits USING (person_id)

-- SqlError join-condition: JOIN needs a condition
SELECT COUNT(*) FROM people JOIN visits USING ()

-- SqlError syntax: a name is missing
SELECT COUNT(*) FROM (SELECT 1) AS (x)

-- SqlError syntax: something is missing after WHERE
SELECT COUNT(*) FROM people WHERE

-- SqlError syntax: something is missing after >
SELECT COUNT(*) FROM people WHERE age >

-- SqlError syntax: something is missing before =
SELECT COUNT(*) FROM people WHERE age = = 3

-- SqlError syntax: sex is not expected here
SELECT COUNT(*) FROM people GROUP sex

-- SqlError syntax: a key is missing here
SELECT COUNT(*) FROM people GROUP BY

-- SqlError syntax: sex is not expected here
SELECT COUNT(*) FROM people ORDER sex

-- SqlError syntax: age is not expected here
SELECT COUNT(*) FROM people WERE age > 3

-- SqlError syntax: FROM is not expected here
SELECT COUNT(*) people WHERE age > 3 FROM people

-- SqlError syntax: what to SELECT is missing here
SELECT FROM people

-- SqlError syntax: something is missing after FROM
SELECT COUNT(*) FROM

-- SqlError syntax: limit is an SQL keyword, not a name
SELECT COUNT(*) limit FROM people

-- SqlError syntax: something is missing after where
SELECT COUNT(*) FROM people where

-- SqlError syntax: FROM is not expected here
SELECT SUM(age) FILTER WHERE active FROM people

-- SqlError syntax: END is missing after 1
SELECT CASE WHEN active THEN 1 FROM people

-- SqlError syntax: AS is missing before INTEGER
SELECT CAST(age INTEGER) FROM people

-- SqlError syntax: the list of IN is missing here
SELECT COUNT(*) FROM people WHERE age IN

-- SqlError syntax: the list of IN is missing here
SELECT COUNT(*) FROM people WHERE age IN ()

-- SqlError syntax: IS is followed by NULL, TRUE, FALSE or [NOT] DISTINCT FROM
SELECT COUNT(*) FROM people WHERE sex IS 'f'

-- SqlError parameter: a parameter can be a value, not a name
SELECT COUNT(*) ? FROM people

-- SqlError join-condition: JOIN needs a condition
SELECT COUNT(*) FROM people p JOIN visits v

-- SqlError join-condition: JOIN needs a condition
SELECT COUNT(*) FROM people p JOIN visits v ON

-- SqlError join-condition: JOIN needs a condition
SELECT COUNT(*) FROM people LEFT JOIN visits WHERE age > 3

-- SqlError syntax: ( is expected here
WITH t AS SELECT * FROM people SELECT COUNT(*) FROM t

-- Unsupported not-accepted: engines read a chain of comparisons differently
SELECT COUNT(*) FROM people WHERE 1 < age < 30

-- Unsupported not-accepted: engines read a chain of comparisons differently
SELECT COUNT(*) FROM people WHERE age = income = 3

-- # options

-- SqlError options: ( is expected here
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS COUNT(*) FROM people

-- SqlError options: = is expected here
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon 0.5) COUNT(*) FROM people

-- SqlError options: the value of an option is a constant
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = ) COUNT(*) FROM people

-- SqlError syntax: a bracket is not closed
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 0.5 COUNT(*) FROM people

-- SqlError options: , or ) is expected here
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 0.5 delta = 1e-6) COUNT(*) FROM people

-- Unsupported many-statements: one statement at a time
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 0.5; delta = 1) COUNT(*) FROM people

-- SqlError options: the value of an option is a constant
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = age) COUNT(*) FROM people

-- SqlError options: the value of an option is a constant
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = -'x') COUNT(*) FROM people

-- SqlError options: options belong to the outermost SELECT: a statement has one price
SELECT COUNT(*) FROM (SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1) * FROM people) AS t

-- SqlError syntax: WITH is not expected here
SELECT WITH DIFFERENTIAL_PRIVACY WITH DIFFERENTIAL_PRIVACY COUNT(*) FROM people

-- SqlError options: a statement can have only one OPTIONS clause
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1) COUNT(*) FROM (SELECT WITH DIFFERENTIAL_PRIVACY * FROM people) AS t

-- SqlError options: OPTIONS must follow the first SELECT
SELECT age, COUNT(*) FROM people GROUP BY age OPTIONS (epsilon = 0.1)

-- SqlError options: DIFERENTIAL_PRIVACY is not expected here
SELECT WITH DIFERENTIAL_PRIVACY COUNT(*) FROM people

-- SqlError options: options belong to the outermost SELECT: a statement has one price
SELECT COUNT(*) FROM people WHERE age > (SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1) AVG(age) FROM people)

-- Unsupported options: contribution_bounds_per_row is not an argument here: bounds are declared in the policy, or written
SELECT SUM(age, contribution_bounds_per_row => (0, 50)) FROM people

-- Unsupported options: contribution_bounds_per_group is not an argument here: bounds are declared in the policy, or written
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1) SUM(age, contribution_bounds_per_group => (0, 50)) FROM people

-- SqlError options: the option max_groups_contributed is called max_groups
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1, max_groups_contributed = 2) SUM(cost) FROM visits

-- SqlError options: the policy determines who is protected
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1, privacy_unit_column = person_id) SUM(cost) FROM visits

-- # rows are never shown

-- Unsupported star: rows are never shown, only aggregates over them
SELECT * FROM people

-- Unsupported star: rows are never shown, only aggregates over them
SELECT people.* FROM people

-- Unsupported no-aggregate: rows are never shown, only aggregates over them
SELECT age FROM people

-- SqlError group-by: age is neither a key of GROUP BY nor inside an aggregate
SELECT age, COUNT(*) FROM people

-- Unsupported star: rows are never shown, only aggregates over them
SELECT DISTINCT * FROM people

-- Unsupported star: rows are never shown, only aggregates over them
FROM people

-- Unsupported star: rows are never shown, only aggregates over them
SELECT COUNT(*), * FROM people

-- Unsupported no-aggregate: rows are never shown, only aggregates over them
SELECT 1 FROM people

-- Unsupported table-as-column: people is a table, and rows are never shown
SELECT people FROM people

-- Unsupported table-as-column: p is a table, and rows are never shown
SELECT COUNT(p) FROM people AS p

-- Unsupported star: rows are never shown
SELECT COUNT(p.*) FROM people AS p

-- Unsupported star: rows are never shown
SELECT * EXCLUDE (age) FROM people

-- Unsupported star: EXCLUDE, REPLACE and RENAME may only follow * in a SELECT list
SELECT COUNT(* EXCLUDE (age)) FROM people

-- SqlError unknown-column: * has no column ages
SELECT COUNT(*) FROM (SELECT * EXCLUDE (ages) FROM people) AS t

-- SqlError star: sex is named twice after *
SELECT COUNT(*) FROM (SELECT * EXCLUDE (sex, age, sex) FROM people) AS t

-- SqlError star: age is named twice after *
SELECT COUNT(*) FROM (SELECT * EXCLUDE (sex) REPLACE (age + 1 AS age, age + 2 AS age) FROM people) AS t

-- Unsupported star: EXCLUDE takes names of columns
SELECT COUNT(*) FROM (SELECT * EXCLUDE (p.age) FROM people AS p) AS t

-- Unsupported not-accepted: COLUMNS(...) is not answered
SELECT COLUMNS('a.*') FROM people

-- Unsupported not-accepted: columns are referred to by name
SELECT #1 FROM people

-- SqlError unknown-column: there is no column rowid
SELECT rowid, COUNT(*) FROM people GROUP BY rowid

-- # what could change data or outlive the statement

-- Unsupported not-accepted: a query cannot make a table
SELECT COUNT(*) INTO t FROM people

-- Unsupported not-accepted: a statement cannot change data
WITH d AS (DELETE FROM people RETURNING *) SELECT COUNT(*) FROM d

-- Unsupported not-accepted: a statement cannot change data
WITH d AS (INSERT INTO people SELECT * FROM people RETURNING *) SELECT COUNT(*) FROM d

-- Unsupported not-accepted: a statement cannot change data
WITH d AS (UPDATE people SET age = 3 RETURNING *) SELECT COUNT(*) FROM d

-- Unsupported not-accepted: FOR UPDATE is not answered
SELECT COUNT(*) FROM people FOR UPDATE

-- Unsupported unknown-function: the function nextval is not answered
SELECT nextval('seq') FROM people

-- # queries that cannot be bounded, or are left out

-- Unsupported outer-union: the outermost query must be one SELECT
SELECT age FROM people UNION ALL SELECT year FROM visits

-- Unsupported inner-limit: LIMIT inside a subquery depends on the rows of all entities
SELECT COUNT(*) FROM (SELECT age FROM people EXCEPT SELECT year FROM visits LIMIT 3) AS t

-- Unsupported inner-limit: OFFSET inside a subquery depends on the rows of all entities
SELECT COUNT(*) FROM (SELECT age FROM people EXCEPT SELECT year FROM visits OFFSET 3) AS t

-- Unsupported inner-limit: LIMIT inside a subquery depends on the rows of all entities
SELECT COUNT(*) FROM (SELECT age FROM people INTERSECT SELECT year FROM visits LIMIT 3) AS t

-- Unsupported inner-limit: OFFSET inside a subquery depends on the rows of all entities
SELECT COUNT(*) FROM (SELECT age FROM people INTERSECT SELECT year FROM visits OFFSET 3) AS t

-- Unsupported no-limit: each row here depends on the rows of many entities, and the number of rows of scores that one of them has is not limited
SELECT COUNT(*) FROM (SELECT age FROM people EXCEPT SELECT points FROM scores) AS t

-- SqlError union: the parts of this INTERSECT have 2 and 1 columns
SELECT COUNT(*) FROM (SELECT age, sex FROM people INTERSECT SELECT year FROM visits) AS t

-- SqlError union: the parts of this UNION have 2 and 1 columns
SELECT COUNT(*) FROM (SELECT age, sex FROM people UNION ALL SELECT year FROM visits) AS t

-- SqlError type: BIGINT and VARCHAR cannot be combined
SELECT COUNT(*) FROM (SELECT sex FROM people UNION ALL SELECT year FROM visits) AS t

-- Unsupported not-accepted: recursive queries have no bound
WITH RECURSIVE t AS (SELECT 1 AS x UNION ALL SELECT x + 1 FROM t) SELECT COUNT(*) FROM t

-- Unsupported inner-limit: LIMIT inside a subquery depends on the rows of all entities
SELECT COUNT(*) FROM (SELECT * FROM people LIMIT 10) AS t

-- Unsupported inner-limit: OFFSET inside a subquery depends on the rows of all entities
SELECT COUNT(*) FROM (SELECT * FROM people ORDER BY age OFFSET 2) AS t

-- Unsupported inner-limit: LIMIT inside a subquery depends on the rows of all entities
SELECT COUNT(*) FROM (SELECT age FROM people UNION ALL SELECT year FROM visits LIMIT 3) AS t

-- Unsupported inner-limit: OFFSET inside a subquery
SELECT COUNT(*) FROM (SELECT age FROM people UNION ALL SELECT year FROM visits OFFSET 3) AS t

-- Unsupported inner-aggregate: mode inside a query is not answered
SELECT AVG(m) FROM (SELECT person_id, MODE(year) AS m FROM visits GROUP BY person_id) AS t

-- Unsupported no-bounds: the values that SUM adds up have no declared bounds
SELECT AVG(s) FROM (SELECT person_id, SUM(weight) AS s FROM people GROUP BY person_id) AS t

-- SqlError group-by: * cannot be combined with GROUP BY
SELECT COUNT(*) FROM (SELECT *, COUNT(*) FROM visits GROUP BY person_id) AS t

-- Unsupported window-here: a window function is answered in the SELECT list of a subquery of rows only
SELECT sex, ROW_NUMBER() OVER () FROM people GROUP BY sex

-- Unsupported window-here: a window function is answered in the SELECT list of a subquery of rows only
SELECT SUM(age) OVER (PARTITION BY sex) FROM people

-- Unsupported window-here: a window function is answered in the SELECT list of a subquery of rows only
SELECT COUNT(*) FROM visits WHERE ROW_NUMBER() OVER (PARTITION BY person_id ORDER BY seen) = 1

-- Unsupported window-here: a window function is answered in the SELECT list of a subquery of rows only
SELECT AVG(n) FROM (SELECT note, COUNT(*) AS n, RANK() OVER (ORDER BY COUNT(*)) AS r FROM visits GROUP BY note) AS t

-- Unsupported inner-aggregate: inside a query this is answered for the rows of one entity only
SELECT AVG(LEAST(m, 9)) FROM (SELECT note, MEDIAN(cost) AS m FROM visits GROUP BY note HAVING COUNT(*) > 3) AS t WHERE note IN (SELECT note FROM visits)

-- Unsupported window-here: WINDOW is answered only in a subquery of rows
SELECT COUNT(*) FROM visits WINDOW w AS (ORDER BY seen)

-- SqlError window-here: a window function inside a window function is not answered
SELECT COUNT(*) FROM (SELECT LAG(cost) OVER w AS a, LAG(a) OVER w AS b FROM visits WINDOW w AS (PARTITION BY person_id)) AS t

-- SqlError qualify: QUALIFY needs a window function, and this query has none
SELECT COUNT(*) FROM (SELECT * FROM visits QUALIFY cost > 10) AS t

-- SqlError unknown-window: there is no window w
SELECT COUNT(*) FROM (SELECT LAG(cost) OVER w AS c FROM visits) AS t

-- SqlError window-base: a window based on w cannot change its order
SELECT COUNT(*) FROM (SELECT LAG(cost) OVER (w ORDER BY cost) AS c FROM visits WINDOW w AS (PARTITION BY person_id ORDER BY seen)) AS t

-- SqlError alias: W is named twice in WINDOW
SELECT COUNT(*) FROM (SELECT LAG(cost) OVER w AS c FROM visits WINDOW w AS (PARTITION BY person_id), W AS (ORDER BY seen)) AS t

-- SqlError window-function: this function needs OVER
SELECT COUNT(*) FROM (SELECT ROW_NUMBER() AS n FROM visits) AS t

-- Unsupported window-function: this is not answered as a window function
SELECT COUNT(*) FROM (SELECT upper(clinic) OVER (PARTITION BY person_id) AS n FROM visits) AS t

-- SqlError window-number: NTILE takes a number of parts
SELECT COUNT(*) FROM (SELECT NTILE(0) OVER (PARTITION BY person_id ORDER BY cost) AS n FROM visits) AS t

-- SqlError window-number: LAG takes a number of rows
SELECT COUNT(*) FROM (SELECT LAG(cost, -1) OVER (PARTITION BY person_id ORDER BY seen) AS n FROM visits) AS t

-- SqlError window-order: ORDER BY ALL has no meaning in a window
SELECT COUNT(*) FROM (SELECT LAG(cost) OVER (PARTITION BY person_id ORDER BY ALL) AS n FROM visits) AS t

-- Unsupported window-frame: RANGE with a distance is not answered
SELECT COUNT(*) FROM (SELECT SUM(cost) OVER (PARTITION BY person_id ORDER BY year RANGE 1 PRECEDING) AS n FROM visits) AS t

-- Unsupported window-frame: frames in GROUPS are not answered
SELECT COUNT(*) FROM (SELECT SUM(cost) OVER (PARTITION BY person_id ORDER BY year GROUPS 1 PRECEDING) AS n FROM visits) AS t

-- SqlError window-ends: this frame ends before it begins
SELECT COUNT(*) FROM (SELECT SUM(cost) OVER (PARTITION BY person_id ROWS BETWEEN 1 PRECEDING AND 2 PRECEDING) AS n FROM visits) AS t

-- SqlError window-frame: a frame cannot begin at UNBOUNDED FOLLOWING
SELECT COUNT(*) FROM (SELECT SUM(cost) OVER (PARTITION BY person_id ROWS UNBOUNDED FOLLOWING) AS n FROM visits) AS t

-- Unsupported not-accepted: EXCLUDE is not answered
SELECT COUNT(*) FROM (SELECT SUM(cost) OVER (PARTITION BY person_id ORDER BY seen ROWS BETWEEN 1 PRECEDING AND CURRENT ROW EXCLUDE TIES) AS n FROM visits) AS t

-- Unsupported not-accepted: IGNORE NULLS is not answered
SELECT COUNT(*) FROM (SELECT LAG(cost IGNORE NULLS) OVER (PARTITION BY person_id ORDER BY seen) AS n FROM visits) AS t

-- Unsupported shared-window: these windows contain rows of many entities, so one entity could change the result for all others
SELECT COUNT(*) FROM (SELECT RANK() OVER (ORDER BY cost DESC) AS r FROM visits) AS t WHERE r <= 10

-- Unsupported shared-window: these windows contain rows of many entities, so one entity could change the result for all others
SELECT COUNT(*) FROM (SELECT PERCENT_RANK() OVER (ORDER BY cost DESC) AS r FROM visits) AS t WHERE r <= 0.1

-- Unsupported window-frame: NTH_VALUE is answered in frames that begin with UNBOUNDED PRECEDING
SELECT COUNT(n) FROM (SELECT NTH_VALUE(cost, 2) OVER (PARTITION BY person_id ORDER BY seen ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) AS n FROM visits) AS t

-- SqlError window-number: NTH_VALUE takes the number of a row
SELECT COUNT(n) FROM (SELECT NTH_VALUE(cost, 0) OVER (PARTITION BY person_id ORDER BY seen) AS n FROM visits) AS t

-- Unsupported shared-window: these windows contain rows of many entities, so one entity could change the result for all others
SELECT COUNT(*) FROM (SELECT cost / SUM(cost) OVER (PARTITION BY clinic) AS share FROM visits) AS t WHERE share > 0.1

-- SqlError syntax: OVER is followed by a window
SELECT COUNT(*) FROM (SELECT COUNT(*) OVER FROM visits) AS t

-- Unsupported not-accepted: samples are not answered
SELECT COUNT(*) FROM people TABLESAMPLE 10%

-- Unsupported not-accepted: samples are not answered
SELECT COUNT(*) FROM people USING SAMPLE 10

-- Unsupported not-accepted: WITH ROLLUP is not answered
SELECT sex, COUNT(*) FROM people GROUP BY sex WITH ROLLUP

-- Unsupported group-by: grouping sets inside a query are not answered
SELECT COUNT(*) FROM (SELECT sex, COUNT(*) AS n FROM visits JOIN people USING (person_id) GROUP BY CUBE (sex)) AS t

-- SqlError group-by: GROUPING is known only after rows are grouped
SELECT COUNT(*) FROM people WHERE GROUPING(sex) = 1 GROUP BY CUBE (sex)

-- SqlError group-by: this is not a key of GROUP BY
SELECT COUNT(*), GROUPING(age) FROM people GROUP BY CUBE (sex)

-- Unsupported window-here: an aggregate over groups of several grouping sets is not answered
SELECT sex, SUM(COUNT(*)) OVER () FROM people GROUP BY ROLLUP (sex)

-- SqlError group-by: this is not a key of GROUP BY
SELECT sex, SUM(COUNT(*)) OVER (ORDER BY age) FROM people GROUP BY sex

-- Unsupported group-by: GROUP BY takes a list of keys without brackets
SELECT sex, active, COUNT(*) FROM people GROUP BY (sex, active)

-- Unsupported not-accepted: LIMIT takes a number of rows
SELECT COUNT(*) FROM people LIMIT 10%

-- SqlError limit: LIMIT takes a number of rows
SELECT COUNT(*) FROM people LIMIT -1

-- SqlError limit: LIMIT takes a number of rows
SELECT COUNT(*) FROM people LIMIT 2.5

-- SqlError limit: LIMIT takes a number of rows
SELECT COUNT(*) FROM people LIMIT 'x'

-- Unsupported not-accepted: FETCH takes a number of rows, without ties
SELECT COUNT(*) FROM people FETCH FIRST 3 ROWS WITH TIES

-- Unsupported not-accepted: PIVOT is not answered
SELECT COUNT(*) FROM (PIVOT visits ON year USING SUM(cost)) AS t

-- Unsupported not-accepted: PIVOT is not answered
SELECT COUNT(*) FROM visits PIVOT (SUM(cost) FOR year IN (2018, 2019))

-- # FROM

-- SqlError unknown-table: there is no table peple
SELECT COUNT(*) FROM peple

-- Unsupported undeclared-table: table unlisted is not declared in the policy, so it is private and unusable
SELECT COUNT(*) FROM unlisted

-- Unsupported outside-table: table households cannot be used: it is private, and no foreign key leads from it to the protected person (people.person_id)
SELECT COUNT(*) FROM households

-- Unsupported not-accepted: the policy's tables are in the schema main
SELECT COUNT(*) FROM other.people

-- Unsupported file: files are not read by statements
SELECT COUNT(*) FROM 'people.csv'

-- Unsupported not-accepted: functions in FROM are not answered
SELECT COUNT(*) FROM read_csv('people.csv')

-- Unsupported not-accepted: functions in FROM are not answered
SELECT COUNT(*) FROM read_parquet('people.parquet')

-- Unsupported not-accepted: in FROM, only UNNEST of a list of constants and generate_series or range of up to 1000 constants are answered
SELECT COUNT(*) FROM range(10000)

-- Unsupported not-accepted: in FROM, only UNNEST of a list of constants and generate_series or range of up to 1000 constants are answered
SELECT COUNT(*) FROM people, UNNEST([age, 1]) AS u(x)

-- Unsupported values: VALUES takes constants, and so does UNNEST
SELECT COUNT(*) FROM UNNEST([1 + 1, 3]) AS u(x)

-- Unsupported table-function: functions in FROM are not answered
SELECT COUNT(*) FROM query('SELECT 1')

-- Unsupported table-function: functions in FROM are not answered
SELECT COUNT(*) FROM duckdb_settings()

-- Unsupported lateral: LATERAL is answered only for expressions, or for aggregates over the rows linked to the outer row
SELECT SUM(cost) FROM people p, LATERAL (SELECT cost FROM visits v WHERE v.person_id = p.person_id) AS t

-- Unsupported lateral: LATERAL is answered only for expressions, or for aggregates over the rows linked to the outer row
SELECT SUM(x) FROM people p LEFT JOIN LATERAL (SELECT p.age AS x) AS t ON x > 3

-- Unsupported lateral: LATERAL is answered only for expressions, or for aggregates over the rows linked to the outer row
SELECT SUM(x) FROM people p, LATERAL (SELECT p.age AS x WHERE p.active) AS t

-- Unsupported lateral: LATERAL needs a table before it
SELECT SUM(x) FROM LATERAL (SELECT 1 AS x) AS t

-- Unsupported not-accepted: IN takes a list or a subquery
SELECT COUNT(*) FROM people WHERE age IN UNNEST([30, 40])

-- SqlError alias: people is named twice in FROM
SELECT COUNT(*) FROM people, people

-- SqlError alias: p is named twice in FROM
SELECT COUNT(*) FROM people p JOIN visits p USING (person_id)

-- Unsupported join-kind: LEFT SEMI JOIN is not answered
SELECT COUNT(*) FROM people LEFT SEMI JOIN visits USING (person_id)

-- SqlError join-condition: JOIN needs a condition
SELECT COUNT(*) FROM people ANTI JOIN visits

-- SqlError join-condition: the tables of this NATURAL JOIN have no column name in common
SELECT COUNT(*) FROM people NATURAL JOIN clinics

-- Unsupported join-condition: x is BIGINT on one side of this full join, and VARCHAR on the other
SELECT COUNT(*) FROM (SELECT person_id, age AS x FROM people) AS p FULL JOIN (VALUES ('1')) AS v(x) USING (x)

-- Unsupported join-kind: ASOF JOIN is not answered
SELECT COUNT(*) FROM people ASOF JOIN visits USING (person_id)

-- Unsupported join-kind: POSITIONAL JOIN is not answered
SELECT COUNT(*) FROM people POSITIONAL JOIN visits

-- Unsupported outer-private: this join keeps rows of people and visits without a match
SELECT COUNT(*) FROM people p FULL JOIN visits v ON p.age = v.year

-- Unsupported outer-private: this join keeps rows of people and visits without a match
SELECT COUNT(*) FROM people p LEFT JOIN visits v ON p.age < v.year

-- Unsupported private-list: this list depends on private rows, so one of them could change the answer for all others
SELECT COUNT(*) FROM visits v SEMI JOIN visits w ON v.clinic = w.clinic

-- Unsupported no-limit: each row here depends on the rows of many entities, and the number of rows of scores that one of them has is not limited
SELECT COUNT(*) FROM clinics c LEFT JOIN scores s ON c.beds = s.points

-- SqlError unknown-column: there is no column age
SELECT COUNT(*) FROM people JOIN visits USING (age)

-- SqlError type: ON needs a condition, and this is BIGINT
SELECT COUNT(*) FROM people p JOIN visits v ON p.age

-- Unsupported join-condition: a subquery in ON is not answered
SELECT COUNT(*) FROM people p JOIN visits v ON p.person_id IN (SELECT beds FROM clinics)

-- SqlError alias: p has 9 columns, and 11 names are given
SELECT COUNT(*) FROM people AS p(a, b, c, d, e, f, g, h, i, j, k)

-- SqlError values: the rows of VALUES differ in length
SELECT COUNT(*) FROM (VALUES (1), (2, 3)) AS t

-- Unsupported values: VALUES takes constants
SELECT COUNT(*) FROM (VALUES (1 + 1)) AS t

-- SqlError type: this text is not a whole number
SELECT COUNT(*) FROM (VALUES (1), ('x')) AS t

-- Unsupported not-accepted: earlier versions of a table are not available
SELECT COUNT(*) FROM people AT (TIMESTAMP => now())

-- # names

-- SqlError unknown-column: there is no column agee
SELECT AVG(agee) FROM people

-- SqlError unknown-column: there is no column agee in p
SELECT AVG(p.agee) FROM people AS p

-- SqlError unknown-table: there is no table q in FROM
SELECT AVG(q.age) FROM people AS p

-- Unsupported undeclared-column: column secret of people is not declared in the policy, so it is private and unusable
SELECT AVG(secret) FROM people

-- Unsupported undeclared-column: column secret of people is not declared in the policy, so it is private and unusable
SELECT COUNT(people.secret) FROM people

-- SqlError unknown-column: there is no column cost in FROM; visits has one
SELECT AVG(cost) FROM people

-- SqlError unknown-column: there is no column name
SELECT COUNT(*) FROM people JOIN visits USING (person_id) JOIN clinics USING (clinic) WHERE note = city AND name = 'x'

-- SqlError ambiguous-column: person_id could be a column of p or v
SELECT COUNT(*) FROM people p JOIN visits v ON p.person_id = v.person_id WHERE person_id = 3

-- SqlError unknown-table: there is no table people in FROM
SELECT COUNT(*) FROM people AS p WHERE people.age > 3

-- Unsupported not-accepted: the policy's tables are in the schema main
SELECT COUNT(*) FROM people WHERE other.people.age > 3

-- SqlError aggregate-here: n is an aggregate, known only after rows are grouped
SELECT COUNT(*) AS n FROM people WHERE n > 3

-- SqlError aggregate-here: n is an aggregate, known only after rows are grouped
SELECT COUNT(*) AS n FROM people GROUP BY n

-- SqlError position: there is no item 3 in the SELECT list
SELECT sex, COUNT(*) FROM people GROUP BY 3

-- SqlError position: there is no item 0 in the SELECT list
SELECT sex, COUNT(*) FROM people GROUP BY sex ORDER BY 0

-- SqlError group-by: age is neither a key of GROUP BY nor inside an aggregate
SELECT sex, COUNT(*) FROM people GROUP BY sex ORDER BY age

-- SqlError group-by: age is neither a key of GROUP BY nor inside an aggregate
SELECT COUNT(*) FROM people HAVING age > 3

-- SqlError group-by: sex is neither a key of GROUP BY nor inside an aggregate
SELECT UPPER(sex), COUNT(*) FROM people GROUP BY LOWER(sex)

-- Unsupported group-by: a subquery over groups is not answered
SELECT clinic IN (SELECT clinic FROM clinics), COUNT(*) FROM visits GROUP BY clinic

-- # values

-- SqlError undeclared-value: 'F' is not a declared value of this column
SELECT COUNT(*) FROM people WHERE sex = 'F'

-- SqlError undeclared-value: 'M' is not a declared value of this column
SELECT COUNT(*) FILTER (WHERE sex IN ('f', 'M')) FROM people

-- # types

-- SqlError type: SUM needs numbers, and this is VARCHAR
SELECT SUM(sex) FROM people

-- SqlError type: AVG needs numbers, and this is BOOLEAN
SELECT AVG(active) FROM people

-- SqlError type: AVG needs numbers, and this is DATE
SELECT AVG(born) FROM people

-- Unsupported type: quantiles of DATE are not answered
SELECT MEDIAN(born) FROM people

-- Unsupported type: MIN of VARCHAR is not answered
SELECT MIN(nickname) FROM people

-- SqlError type: WHERE needs a condition, and this is BIGINT
SELECT COUNT(*) FROM people WHERE age

-- SqlError type: WHERE needs a condition, and this is VARCHAR
SELECT COUNT(*) FROM people WHERE sex

-- SqlError type: NOT needs a condition, and this is BIGINT
SELECT COUNT(*) FROM people WHERE NOT age

-- SqlError type: WHERE needs a condition, and this is BIGINT
SELECT COUNT(*) FROM people WHERE active AND age

-- SqlError type: this text is not a whole number
SELECT COUNT(*) FROM people WHERE age = 'old'

-- SqlError type: this text is not a whole number
SELECT COUNT(*) FROM people WHERE age = '99999999999999999999'

-- SqlError type: BIGINT and VARCHAR cannot be combined
SELECT COUNT(*) FROM people WHERE sex = 1

-- SqlError type: BIGINT and BOOLEAN cannot be combined
SELECT COUNT(*) FROM people WHERE active = 1

-- SqlError type: BIGINT and DATE cannot be combined
SELECT COUNT(*) FROM people WHERE born > 1990

-- SqlError type: this text is not a date
SELECT COUNT(*) FROM people WHERE born > '31.12.1990'

-- SqlError type: this text is not a date
SELECT COUNT(*) FROM people WHERE born = DATE '2021-02-29'

-- SqlError type: this text is not a moment
SELECT COUNT(*) FROM visits WHERE seen > '2020'

-- SqlError type: + cannot be applied to VARCHAR and BIGINT
SELECT COUNT(*) FROM people WHERE sex + 1 = 2

-- SqlError type: lower cannot be applied to BIGINT
SELECT COUNT(*) FROM people WHERE lower(age) = 'x'

-- SqlError type: year cannot be applied to BIGINT
SELECT COUNT(*) FROM people WHERE year(age) = 3

-- SqlError type: + cannot be applied to DATE and DOUBLE
SELECT COUNT(*) FROM people WHERE born + income > '2000-01-01'

-- Unsupported type: only a constant number of days can be subtracted from a date
SELECT COUNT(*) FROM people WHERE born - age > '2000-01-01'

-- SqlError type: this text is not a whole number
SELECT COUNT(*) FROM people WHERE age IN (1, 'x')

-- SqlError type: this text is not a whole number
SELECT COUNT(*) FROM people WHERE coalesce(age, 'x') = 3

-- SqlError type: WHEN needs a condition, and this is BIGINT
SELECT COUNT(*) FROM people WHERE CASE WHEN age THEN 1 END = 1

-- SqlError type: this text is not a whole number
SELECT COUNT(*) FROM people WHERE CASE WHEN active THEN 1 ELSE 'x' END = 1

-- SqlError type: || cannot be applied to VARCHAR and DOUBLE
SELECT COUNT(*) FROM people WHERE sex || income = 'x'

-- SqlError type: // cannot be applied to DOUBLE and DOUBLE
SELECT COUNT(*) FROM people WHERE income // 2 = 3

-- SqlError type: FILTER needs a condition, and this is BIGINT
SELECT COUNT(*) FILTER (WHERE age) FROM people

-- # aggregates

-- SqlError aggregate-here: an aggregate is not allowed here
SELECT COUNT(*) FROM people WHERE COUNT(*) > 3

-- SqlError aggregate-here: nested aggregates are not answered
SELECT SUM(COUNT(*)) FROM people

-- SqlError aggregate-here: nested aggregates are not answered
SELECT SUM(AVG(age) + 1) FROM people

-- SqlError group-by: an aggregate cannot be a key
SELECT COUNT(*) FROM people GROUP BY COUNT(*)

-- SqlError group-by: an aggregate cannot be a key
SELECT COUNT(*), sex FROM people GROUP BY 1

-- SqlError type: SUM needs an argument
SELECT SUM(*) FROM people

-- SqlError syntax: something is missing before )
SELECT SUM() FROM people

-- SqlError type: AVG takes one argument
SELECT MEAN() FROM people

-- SqlError syntax: ) is not expected here
SELECT AVG(age, income) FROM people

-- Unsupported not-accepted: COUNT takes one expression
SELECT COUNT(age, sex) FROM people

-- Unsupported distinct-aggregate: COUNT(DISTINCT ...) takes one expression
SELECT COUNT(DISTINCT age, sex) FROM people

-- Unsupported distinct-aggregate: COUNT(DISTINCT ...) takes one expression
SELECT COUNT(DISTINCT *) FROM people

-- Unsupported distinct-aggregate: SUM(DISTINCT x) is answered beside other DISTINCT aggregates of x only
SELECT SUM(DISTINCT age), COUNT(*) FROM people

-- Unsupported distinct-aggregate: SUM(DISTINCT ...) is not answered inside a query
SELECT AVG(s) FROM (SELECT person_id, SUM(DISTINCT year) AS s FROM visits GROUP BY person_id) AS t

-- Unsupported distinct-aggregate: STDDEV_SAMP(DISTINCT ...) is not answered
SELECT STDDEV(DISTINCT age) FROM people

-- Unsupported distinct-aggregate: a quantile of DISTINCT values is not answered
SELECT MEDIAN(DISTINCT age) FROM people

-- Unsupported distinct-aggregate: MODE(DISTINCT ...) is not answered: every different value occurs once
SELECT MODE(DISTINCT sex) FROM people

-- Unsupported not-accepted: ORDER BY inside an aggregate is not answered
SELECT SUM(age ORDER BY income) FROM people

-- SqlError filter: FILTER must follow an aggregate
SELECT ABS(age) FILTER (WHERE active) FROM people

-- SqlError syntax: ( is not expected here
SELECT COUNT(*) FILTER (WHERE active) FILTER (WHERE age > 3) FROM people

-- SqlError quantile: a quantile needs a constant fraction between 0 and 1
SELECT QUANTILE_CONT(age, 2) FROM people

-- SqlError quantile: a quantile needs a constant fraction between 0 and 1
SELECT QUANTILE_CONT(age, income) FROM people

-- SqlError quantile: quantile_cont needs a fraction between 0 and 1
SELECT QUANTILE_CONT(age) FROM people

-- Unsupported quantile: a list of quantiles is not answered, as each has its own interval
SELECT QUANTILE_CONT(age, [0.1, 0.9]) + 1 FROM people

-- Unsupported quantile: only percentile_cont(p) and percentile_disc(p) take WITHIN GROUP, with one column
SELECT PERCENTILE_CONT(0.1) WITHIN GROUP (ORDER BY age, income) FROM people

-- Unsupported no-bounds: the values of income are not declared, or are more than 1000, and MODE() WITHIN GROUP (ORDER BY income) is one of them
SELECT MODE() WITHIN GROUP (ORDER BY income) FROM people

-- Unsupported no-bounds: the values of nickname are not declared, or are more than 1000, and MODE(nickname) is one of them
SELECT MODE(nickname) FROM people

-- SqlError type: MODE needs an argument
SELECT MODE() FROM people

-- Unsupported inner-aggregate: mode inside a query is not answered
SELECT COUNT(*) FROM (SELECT person_id, MODE(clinic) AS c FROM visits GROUP BY person_id) AS t

-- Unsupported aggregate-here: an aggregate that shows the value of a single row is not answered
SELECT ANY_VALUE(age) FROM people

-- Unsupported not-accepted: an aggregate that shows the value of a single row is not answered
SELECT FIRST(age) FROM people

-- Unsupported aggregate-here: ARG_MAX shows the value of a single row, so it is answered for the rows of one entity only
SELECT ARG_MAX(sex, age) FROM people

-- Unsupported not-accepted: lists of values are not answered
SELECT LIST(age) FROM people

-- Unsupported not-accepted: lists of values are not answered
SELECT STRING_AGG(sex, ',') FROM people

-- Unsupported not-accepted: approximate counts are not needed
SELECT APPROX_COUNT_DISTINCT(sex) FROM people

-- Unsupported no-bounds: a geometric mean needs bounds above 0, so that the logarithms have bounds
SELECT GEOMEAN(age) FROM people

-- SqlError type: GEOMEAN takes one argument
SELECT GEOMETRIC_MEAN(age, income) FROM people

-- SqlError type: CORR needs numbers, and this is VARCHAR
SELECT CORR(age, sex) FROM people

-- SqlError type: REGR_SLOPE needs numbers, and this is DATE
SELECT REGR_SLOPE(born, age) FROM people

-- SqlError type: REGR_SLOPE needs an argument
SELECT REGR_SLOPE(age) FROM people

-- Unsupported no-bounds: weight has no declared bounds, so one row could change the answer without limit
SELECT CORR(weight, age) FROM people

-- Unsupported inner-aggregate: corr inside a query is not answered
SELECT AVG(c) FROM (SELECT person_id, CORR(cost, year) AS c FROM visits GROUP BY person_id) AS t

-- Unsupported not-accepted: sums of squared distances are not answered
SELECT REGR_SXX(age, income) FROM people

-- Unsupported aggregate-here: BOOL_AND is answered for the rows of one entity only
SELECT BOOL_AND(active) FROM people

-- Unsupported not-accepted: skewness and kurtosis are not answered
SELECT KURTOSIS(age) FROM people

-- Unsupported unknown-function: the median absolute deviation is not answered
SELECT MAD(age) FROM people

-- Unsupported unknown-function: the entropy of values is not answered
SELECT ENTROPY(sex) FROM people

-- Unsupported unknown-function: products over rows are not answered
SELECT PRODUCT(age) FROM people

-- Unsupported unknown-function: lists of values are not answered
SELECT HISTOGRAM(age) FROM people

-- # bounds

-- Unsupported no-bounds: tan(age) has no declared bounds, so one row could change the answer without limit
SELECT AVG(tan(age)) FROM people

-- # functions

-- Unsupported unknown-function: the function frobnicate is not answered
SELECT COUNT(*) FROM people WHERE frobnicate(age) = 3

-- Unsupported unknown-function: the function lowr is not answered
SELECT COUNT(*) FROM people WHERE lowr(sex) = 'f'

-- Unsupported unknown-function: the function cuont is not answered
SELECT CUONT(*) FROM people

-- Unsupported not-accepted: random numbers are not answered
SELECT COUNT(*) FROM people WHERE random() < 0.5

-- Unsupported not-accepted: random numbers are not answered
SELECT COUNT(*) FROM people WHERE uuid() = 'x'

-- Unsupported unknown-function: the current time is not available in a query
SELECT COUNT(*) FROM people WHERE born < now()

-- Unsupported unknown-function: age() of one date depends on the current time, which is not available in a query
SELECT AVG(EXTRACT(YEAR FROM age(born))) FROM people

-- Unsupported interval: of the interval that age() returns, only the full years are answered
SELECT COUNT(*) FROM people WHERE age(DATE '2020-12-31', born) > INTERVAL 30 YEAR

-- Unsupported interval: of the interval that age() returns, only the full years are answered
SELECT AVG(EXTRACT(MONTH FROM age(DATE '2020-12-31', born))) FROM people

-- Unsupported interval: age() of two timestamps is answered if one is a constant other than February 28 or 29
SELECT AVG(EXTRACT(YEAR FROM age(seen, born))) FROM people JOIN visits USING (person_id)

-- Unsupported not-accepted: the current time is not available in a query
SELECT COUNT(*) FROM people WHERE born < current_date

-- Unsupported not-accepted: the current time is not available in a query
SELECT COUNT(*) FROM people WHERE born < today()

-- Unsupported not-accepted: the user is not available in a query
SELECT COUNT(*) FROM people WHERE nickname = current_user

-- Unsupported unknown-function: an error on purpose would reveal that a row exists
SELECT COUNT(*) FROM people WHERE error('x') = 'x'

-- Unsupported unknown-function: the function hash is not answered
SELECT COUNT(*) FROM people WHERE hash(nickname) = 3

-- Unsupported unknown-function: the function md5 is not answered
SELECT COUNT(*) FROM people WHERE md5(nickname) = 'x'

-- Unsupported unknown-function: the engine's environment is not available in a query
SELECT COUNT(*) FROM people WHERE getenv('HOME') = 'x'

-- Unsupported unknown-function: the function sleep_ms is not answered
SELECT COUNT(*) FROM people WHERE sleep_ms(100) = 1

-- Unsupported unknown-function: the function format is not answered
SELECT COUNT(*) FROM people WHERE format('{}', age) = '3'

-- SqlError type: regexp_replace: a replacement may contain at most three groups of the pattern
SELECT COUNT(*) FROM people WHERE regexp_replace(nickname, '[(](a)', '\2') = 'b'

-- SqlError type: regexp_replace: this needs a pattern, and a replacement of at most 20 letters, in which
SELECT COUNT(*) FROM people WHERE regexp_replace(nickname, 'a', 'x\') = 'b'

-- Unsupported pattern: the only option of regexp_replace that is answered is 'g'
SELECT COUNT(*) FROM people WHERE regexp_replace(nickname, 'a', 'b', 'i') = 'b'

-- SqlError type: regexp_extract: a pattern without \B and \C, which match within letters, is needed here
SELECT COUNT(*) FROM people WHERE regexp_extract(nickname, '\C') = 'b'

-- SqlError type: regexp_extract: a whole number between 0 and 9 is needed here
SELECT COUNT(*) FROM people WHERE regexp_extract(nickname, 'a', 11) = 'b'

-- SqlError pattern: this is not a regular expression
SELECT COUNT(*) FROM people WHERE regexp_matches(nickname, '(')

-- SqlError type: regexp_matches takes a constant here
SELECT COUNT(*) FROM people WHERE regexp_matches(nickname, sex)

-- Unsupported pattern: only the flags 'i' and 'c' of regular expressions are answered
SELECT COUNT(*) FROM people WHERE regexp_matches(nickname, 'a', 'x')

-- SqlError type: LIKE: the pattern ends in its escape sign
SELECT COUNT(*) FROM people WHERE nickname LIKE 'a!' ESCAPE '!'

-- SqlError type: ILIKE: this needs a pattern, and one ASCII sign that is not a letter
SELECT COUNT(*) FROM people WHERE nickname ILIKE 'alX' ESCAPE 'x'

-- SqlError type: replace: this needs a text, and a replacement that is not longer
SELECT COUNT(*) FROM people WHERE replace(nickname, 'a', 'bb') = 'bb'

-- SqlError type: strftime: a format of
SELECT COUNT(*) FROM people WHERE strftime(born, '%Q') = 'x'

-- SqlError type: lpad: this needs a length from 0 to 1000
SELECT COUNT(*) FROM people WHERE lpad(nickname, 3, '') = 'x'

-- Unsupported not-accepted: DuckDB has no function width_bucket
SELECT AVG(width_bucket(age, 0, 100, 10)) FROM people

-- SqlError type: LIKE takes a constant here
SELECT COUNT(*) FROM people WHERE nickname LIKE sex

-- SqlError type: glob takes a constant here
SELECT COUNT(*) FROM people WHERE nickname GLOB sex

-- SqlError type: contains takes a constant here
SELECT COUNT(*) FROM people WHERE contains(nickname, sex)

-- SqlError type: left takes a constant here
SELECT COUNT(*) FROM people WHERE left(nickname, age) = 'a'

-- SqlError type: round takes a constant here
SELECT COUNT(*) FROM people WHERE round(income, age) = 3

-- SqlError type: pow takes a constant here
SELECT COUNT(*) FROM people WHERE pow(age, income) = 3

-- Unsupported operator: ^ means different things in different engines
SELECT COUNT(*) FROM people WHERE age ^ 2 = 9

-- Unsupported not-accepted: engines read ~ next to this operator differently
SELECT COUNT(*) FROM people WHERE ~age + 1 = 1

-- SqlError type: a shift needs a constant from 0 to 61
SELECT COUNT(*) FROM people WHERE age << 62 = 2

-- SqlError type: only whole numbers can be shifted, and this is DOUBLE
SELECT SUM(income >> 2) FROM people

-- SqlError type: | cannot be applied to DOUBLE and DOUBLE
SELECT SUM(income | 2) FROM people

-- Unsupported not-accepted: lists and slices are not answered
SELECT COUNT(*) FROM people WHERE nickname[1] = 'a'

-- Unsupported not-accepted: lists are not answered
SELECT COUNT(*) FROM people WHERE [age, 1] = [2, 1]

-- Unsupported not-accepted: lists, structs and maps are not answered
SELECT COUNT(*) FROM people WHERE {'a': age} = {'a': 1}

-- Unsupported unknown-function: the function list_transform is not answered
SELECT COUNT(*) FROM people WHERE list_transform([1], x -> x + 1) = [2]

-- Unsupported not-accepted: JSON is not answered
SELECT COUNT(*) FROM people WHERE nickname -> 'a' = 'b'

-- Unsupported not-accepted: collations are not answered
SELECT COUNT(*) FROM people WHERE nickname COLLATE NOCASE = 'a'

-- SqlError type: substring cannot be applied to VARCHAR and VARCHAR
SELECT COUNT(*) FROM people WHERE substring(nickname, 'a') = 'b'

-- SqlError syntax: ) is not expected here
SELECT COUNT(*) FROM people WHERE abs(age, 2) = 3

-- Unsupported not-accepted: BETWEEN SYMMETRIC is not answered
SELECT COUNT(*) FROM people WHERE age BETWEEN SYMMETRIC 30 AND 20

-- Unsupported time-part: the unit decade is not answered
SELECT COUNT(*) FROM people WHERE date_trunc('decade', born) = '1990-01-01'

-- Unsupported time-part: the unit sex is not answered
SELECT COUNT(*) FROM people WHERE date_trunc(sex, born) = '1990-01-01'

-- Unsupported time-part: the part era of a time is not answered
SELECT COUNT(*) FROM people WHERE extract(era FROM born) > 3

-- Unsupported time-part: the part eon of a time is not answered
SELECT COUNT(*) FROM people WHERE date_part('eon', born) > 3

-- SqlError type: hour cannot be applied to DATE
SELECT COUNT(*) FROM people WHERE hour(born) > 3

-- Unsupported interval: an interval is a whole number of seconds
SELECT COUNT(*) FROM people WHERE born + INTERVAL 3 MICROSECOND > '2000-01-01'

-- Unsupported interval: an interval is a whole number of seconds
SELECT COUNT(*) FROM people WHERE born + INTERVAL '1 month 2 days' > '2000-01-01'

-- Unsupported interval: an interval is a whole number of seconds
SELECT COUNT(*) FROM people WHERE born + INTERVAL (age) DAY > '2000-01-01'

-- SqlError type: INTERVAL: a whole number between -1200 and 1200 is needed here
SELECT COUNT(*) FROM people WHERE born + INTERVAL 99999 DAY > '2000-01-01'

-- Unsupported not-accepted: time zones are not answered
SELECT COUNT(*) FROM people WHERE born AT TIME ZONE 'UTC' > '2000-01-01'

-- Unsupported cast: casts to HUGEINT are not answered
SELECT COUNT(*) FROM people WHERE CAST(age AS HUGEINT) = 3

-- Unsupported not-accepted: lists, structs and maps are not answered
SELECT COUNT(*) FROM people WHERE CAST(age AS INTEGER[]) = [3]

-- Unsupported cast: a DECIMAL has up to 38 digits, up to 9 of them after the point
SELECT COUNT(*) FROM people WHERE CAST(income AS DECIMAL(50, 2)) = 3

-- Unsupported cast: a DECIMAL has up to 38 digits, up to 9 of them after the point
SELECT COUNT(*) FROM people WHERE CAST(income AS DECIMAL(5, NULL)) = 3

-- SqlError cast: DATE cannot be turned into BOOLEAN
SELECT COUNT(*) FROM people WHERE CAST(born AS BOOLEAN)

-- Unsupported unknown-function: the function strptime is not answered
SELECT COUNT(*) FROM people WHERE strptime(nickname, '%Y') > '2000-01-01'

-- Unsupported bins: the policy declares no bins for income
SELECT bin_floor(income) AS b, COUNT(*) FROM people GROUP BY b

-- SqlError bins: bin_floor takes one column
SELECT bin_floor(age + 1) AS b, COUNT(*) FROM people GROUP BY b

-- # subqueries in conditions

-- SqlError syntax: WHEN needs THEN
SELECT CASE WHEN age > 3 'old' ELSE 'young' END AS life, COUNT(*) FROM people GROUP BY life

-- SqlError syntax: AS is missing here
WITH p (SELECT * FROM people) SELECT COUNT(*) FROM p

-- Unsupported scalar-subquery: a subquery used as a value must return exactly one row
SELECT COUNT(*) FROM people WHERE age > (SELECT age FROM people)

-- Unsupported scalar-subquery: a subquery used as a value must return exactly one row
SELECT COUNT(*) FROM people WHERE age > (SELECT AVG(age) FROM people GROUP BY sex)

-- Unsupported scalar-subquery: a subquery used as a value must return exactly one row
SELECT (SELECT * FROM visits) FROM people

-- SqlError scalar-subquery: a subquery used as a value needs one column, and this one has 2
SELECT COUNT(*) FROM people WHERE age > (SELECT AVG(age), COUNT(*) FROM people)

-- SqlError scalar-subquery: this subquery returns several rows, but a value needs one
SELECT COUNT(*) FROM people WHERE age > (SELECT beds FROM clinics)

-- Unsupported scalar-subquery: the selection of rows of a public table depends on a value that is not released yet
SELECT COUNT(*) FROM visits v JOIN (SELECT city FROM clinics WHERE beds > (SELECT AVG(age) FROM people)) AS c ON v.note = c.city

-- Unsupported inner-limit: LIMIT inside a subquery depends on the rows of all entities
SELECT COUNT(*) FROM people WHERE age > (SELECT beds FROM clinics LIMIT 1)

-- SqlError type: DOUBLE and VARCHAR cannot be combined
SELECT COUNT(*) FROM people WHERE sex > (SELECT AVG(age) FROM people)

-- Unsupported linked: a subquery may refer to the outer row only in equalities with its own columns
SELECT COUNT(*) FROM people p WHERE age > (SELECT AVG(q.age) FROM people q WHERE q.age < p.age)

-- Unsupported linked: this aggregate reads columns of the outer row
SELECT COUNT(*) FROM people p WHERE (SELECT SUM(v.cost - p.age) FROM visits v WHERE v.person_id = p.person_id) > 3

-- Unsupported linked: this subquery returns a column of the outer row
SELECT COUNT(*) FROM people p WHERE (SELECT p.age FROM visits v WHERE v.visit_id = p.person_id) > 3

-- Unsupported linked-group: the value of this subquery depends on the rows of many entities
SELECT COUNT(*) FROM visits v WHERE cost > (SELECT AVG(w.cost) FROM visits w WHERE w.clinic = v.clinic)

-- Unsupported scalar-subquery: this subquery may have several rows for one outer row
SELECT COUNT(*) FROM people p WHERE (SELECT cost FROM visits v WHERE v.person_id = p.person_id) > 3

-- Unsupported group-by: a subquery over groups is not answered
SELECT sex, (SELECT COUNT(*) FROM visits v WHERE v.person_id = p.person_id) FROM people p GROUP BY sex

-- Unsupported private-list: this list depends on private rows, so one of them could change the answer for all others
SELECT COUNT(*) FROM visits WHERE clinic IN (SELECT clinic FROM visits)

-- Unsupported no-limit: each row here depends on the rows of many entities, and the number of rows of scores that one of them has is not limited
SELECT COUNT(*) FROM people WHERE age IN (SELECT points FROM scores)

-- Unsupported null-list: this test compares with NULLs of private rows
SELECT COUNT(*) FROM visits WHERE clinic NOT IN (SELECT clinic FROM visits WHERE cost > 100)

-- Unsupported null-list: this test compares with NULLs of private rows
SELECT COUNT(*) FILTER (WHERE clinic IN (SELECT nickname FROM people)) FROM visits

-- SqlError in-list: a subquery after IN has one column
SELECT COUNT(*) FROM visits WHERE clinic IN (SELECT clinic, city FROM clinics)

-- SqlError in-list: a subquery after IN has 2 columns, as many as stand before IN
SELECT COUNT(*) FROM visits WHERE (clinic, year) IN (SELECT clinic FROM clinics)

-- Unsupported null-list: this test of several values may be NULL
SELECT COUNT(*) FROM visits WHERE (clinic, year) NOT IN (SELECT clinic, beds FROM clinics)

-- Unsupported distinct-aggregate: COUNT(DISTINCT ...) takes one expression
SELECT COUNT(DISTINCT (clinic, year)) FROM visits

-- Unsupported tuple: rows of values in parentheses are answered only with = and IN
SELECT COUNT(*) FROM visits WHERE (clinic, year) > ('a', 2020)

-- Unsupported private-list: this list depends on private rows, so one of them could change the answer for all others
SELECT COUNT(*) FROM people WHERE age > ALL (SELECT cost FROM visits)

-- SqlError in-list: a subquery after ANY or ALL has one column
SELECT COUNT(*) FROM people WHERE age > ANY (SELECT beds, clinic FROM clinics)

-- Unsupported not-accepted: ANY and ALL must be between a comparison and a list of constants, a parameter or a subquery
SELECT COUNT(*) FROM people WHERE age > ANY (income)

-- SqlError type: BIGINT and VARCHAR cannot be combined
SELECT COUNT(*) FROM visits WHERE clinic IN (SELECT beds FROM clinics)

-- Unsupported in-list: IN takes a list of constants, or a subquery
SELECT COUNT(*) FROM visits WHERE clinic IN ('a', note)

-- Unsupported private-list: this list depends on private rows, so one of them could change the answer for all others
SELECT COUNT(*) FROM people WHERE EXISTS (SELECT 1 FROM visits)

-- Unsupported private-list: this list depends on private rows, so one of them could change the answer for all others
SELECT COUNT(*) FROM people p WHERE EXISTS (SELECT 1 FROM visits v WHERE v.year = p.age)

-- Unsupported private-list: this list depends on private rows, so one of them could change the answer for all others
SELECT COUNT(*) FROM people p WHERE EXISTS (SELECT 1 FROM visits v WHERE v.person_id < p.person_id)

-- Unsupported exists: EXISTS takes a plain SELECT
SELECT COUNT(*) FROM people p WHERE EXISTS (SELECT COUNT(*) FROM visits v WHERE v.person_id = p.person_id)

-- Unsupported exists: EXISTS takes a plain SELECT
SELECT COUNT(*) FROM people p WHERE EXISTS (SELECT v.person_id FROM visits v GROUP BY v.person_id)

-- SqlError unknown-column: there is no column nothing
SELECT COUNT(*) FROM people p WHERE EXISTS (SELECT nothing FROM clinics)

-- Unsupported exists: EXISTS takes a plain SELECT
SELECT COUNT(*) FROM people p WHERE EXISTS (SELECT 1 FROM clinics UNION ALL SELECT 1)

-- SqlError parameter: no value is given for ?
SELECT COUNT(*) FROM people WHERE age = ?

-- SqlError validate: AGAINST is expected here
VALIDATE SELECT COUNT(*) FROM people WITHIN 5 PERCENT

-- SqlError validate: WITHIN is expected here
VALIDATE SELECT COUNT(*) FROM people AGAINST people_syn

-- SqlError validate: a number above 0 is expected here
VALIDATE SELECT COUNT(*) FROM people AGAINST people_syn WITHIN five PERCENT

-- SqlError validate: a tolerance is a number above 0
VALIDATE SELECT COUNT(*) FROM people AGAINST people_syn WITHIN 0

-- SqlError accuracy: a number above 0 is expected here
SELECT COUNT(*) FROM people ERROR WITHIN 0

-- SqlError accuracy: a number above 0 is expected here
SELECT COUNT(*) FROM people STANDARD ERROR -3

-- SqlError accuracy: a number above 0 is expected here
SELECT COUNT(*) ERROR WITHIN x FROM people

-- SqlError accuracy: a confidence is between 0.5 and 1
SELECT COUNT(*) FROM people ERROR WITHIN 10 CONFIDENCE 1

-- SqlError accuracy: a confidence is between 0.5 and 1
SELECT COUNT(*) FROM people ERROR WITHIN 10 CONFIDENCE 95

-- SqlError accuracy: a standard error has no confidence
SELECT COUNT(*) FROM people STANDARD ERROR 10 CONFIDENCE 0.9

-- SqlError accuracy: a statement has one accuracy
SELECT COUNT(*) FROM people ERROR WITHIN 10 STANDARD ERROR 3

-- SqlError accuracy: a column can have only one accuracy
SELECT COUNT(*) ERROR WITHIN 10 STANDARD ERROR 3 FROM people

-- SqlError accuracy: only the outermost SELECT can have an accuracy
SELECT COUNT(*) FROM (SELECT * FROM people ERROR WITHIN 10) AS t

-- SqlError accuracy: OF and a number are expected here
SELECT COUNT(*) FROM people ERROR WITHIN 5 PERCENT

-- SqlError accuracy: a number above 0, or ROWS, is expected here
SELECT MEDIAN(age) FROM people ERROR WITHIN 5 PERCENT OF age

-- SqlError accuracy: ERROR is expected before WITHIN
SELECT MEDIAN(age) FROM people WITHIN 5 ROWS

-- SqlError accuracy: ERROR is expected before WITHIN
SELECT COUNT(*) FROM people WITHIN 50

-- SqlError accuracy: WHERE is not expected here
SELECT COUNT(*) FROM people ERROR WITHIN 50 WHERE age > 30

-- SqlError accuracy: AS is not expected here
SELECT COUNT(*) ERROR WITHIN 50 AS n FROM people

-- SqlError accuracy: VALIDATE answers yes or no
VALIDATE SELECT COUNT(*) ERROR WITHIN 3 FROM people AGAINST people_syn WITHIN 5 PERCENT

-- SqlError synthesis: TABLE is expected here
CREATE SYNTHETIC made AS SELECT sex FROM people

-- SqlError synthesis: the name of the new table is expected here
CREATE SYNTHETIC TABLE AS SELECT sex FROM people

-- SqlError synthesis: AS is expected here
CREATE SYNTHETIC TABLE made SELECT sex FROM people

-- SqlError synthesis: WHERE is not expected here
CREATE SYNTHETIC TABLE made AS SELECT sex FROM people OPTIONS (rows = 3) WHERE age > 3

-- SqlError options: the options of this statement must be at its end
CREATE SYNTHETIC TABLE made AS SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1) sex FROM people

-- OptionError option: score is an option of the method privbayes alone
CREATE SYNTHETIC TABLE made AS SELECT sex FROM people OPTIONS (method = 'mst', score = 'r')

-- OptionError option: candidates are compared by criteria, and there are none
CREATE SYNTHETIC TABLE made AS SELECT sex FROM people OPTIONS (candidates = 3)

-- OptionError option: rows cannot be left out because they equal a real one
CREATE SYNTHETIC TABLE made AS SELECT sex FROM people OPTIONS (no_copies = 1)

-- SqlError accuracy: this statement cannot have an accuracy
CREATE SYNTHETIC TABLE made AS SELECT sex FROM people ERROR WITHIN 3

-- SqlError synthesis: TABLE is expected here
DROP SYNTHETIC made

-- SqlError synthesis: the name of one synthetic table is expected here
DROP SYNTHETIC TABLE made, made_next

-- SqlError synthesis: the name of the new table is expected here
CREATE SYNTHETIC TABLES AS SELECT sex FROM people

-- SqlError synthesis: AS is expected here
CREATE SYNTHETIC TABLES made SELECT sex FROM people

-- SqlError standing: QUERY is expected here
CREATE STANDING QUERRY visits_by_year AS SELECT year, COUNT(*) FROM visits GROUP BY year

-- SqlError standing: the name of the new standing query is expected here
CREATE STANDING QUERY AS SELECT year, COUNT(*) FROM visits GROUP BY year

-- SqlError standing: AS is expected here
CREATE STANDING QUERY visits_by_year SELECT year, COUNT(*) FROM visits GROUP BY year

-- SqlError standing: WHERE is not expected here
CREATE STANDING QUERY visits_by_year AS SELECT year, COUNT(*) FROM visits GROUP BY year OPTIONS (rho = 1) WHERE year > 2019

-- SqlError options: the options of this statement must be at its end
CREATE STANDING QUERY v AS SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1) year, COUNT(*) FROM visits GROUP BY year

-- SqlError accuracy: this statement cannot have an accuracy
CREATE STANDING QUERY visits_by_year AS SELECT year, COUNT(*) FROM visits GROUP BY year ERROR WITHIN 3

-- SqlError standing: QUERY is expected here
DROP STANDING visits_by_year

-- SqlError standing: the name of one standing query is expected here
DROP STANDING QUERY visits_by_year, costs

-- SqlError syntax: SHOW takes BUDGET, PERIODS, RELEASES, STANDING QUERIES or TABLES
SHOW STANDING

-- SqlError syntax: SHOW takes BUDGET, PERIODS, RELEASES, STANDING QUERIES or TABLES
SHOW STANDING QUERYS

-- Unsupported not-a-query: only queries are answered
CREATE STANDNG QUERY v AS SELECT year, COUNT(*) FROM visits GROUP BY year

-- SqlError synthesis: MODEL is expected here
CREATE ONLINE TABLE modelled AS SELECT sex FROM people

-- SqlError synthesis: the name of the new model is expected here
CREATE ONLINE MODEL AS SELECT sex FROM people
