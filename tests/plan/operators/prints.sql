-- scan
SELECT CAST(t0."id" AS BIGINT) AS "p_id", (CASE WHEN isnan(t0."x") THEN CAST('nan' AS DOUBLE) ELSE t0."x" END) AS "p_x", t0."active" AS "p_active" FROM "people" AS t0

-- scan, owner may be NULL
SELECT CAST(t0."visit" AS BIGINT) AS "v_visit", CAST(t0."person" AS BIGINT) AS "v_person", (CAST(t0."town" AS VARCHAR) COLLATE "C") AS "v_town" FROM "visits" AS t0 WHERE t0."person" IS NOT NULL

-- scan, owner in a parent
SELECT (CAST(t0."word" AS VARCHAR) COLLATE "C") AS "n_word", CAST(t1."person" AS BIGINT) AS "n_owner" FROM "notes" AS t0 JOIN "visits" AS t1 ON (CAST(t0."visit" AS BIGINT) = CAST(t1."visit" AS BIGINT)) WHERE t1."person" IS NOT NULL

-- scan, public
SELECT (CAST(t0."town" AS VARCHAR) COLLATE "C") AS "t_town" FROM "towns" AS t0

-- scan, entities of two kinds
SELECT CAST(t0."visit" AS BIGINT) AS "v_visit", ((CAST(t0."person" AS BIGINT) * 2) + 1) AS "o1", (('1:' || (CAST(t0."town" AS VARCHAR) COLLATE "C")) COLLATE "C") AS "o2" FROM "visits" AS t0 WHERE t0."person" IS NOT NULL AND t0."town" IS NOT NULL

-- scan, owner two steps away
SELECT (CAST(t0."word" AS VARCHAR) COLLATE "C") AS "n_word", CAST(t2."household" AS BIGINT) AS "o" FROM "notes" AS t0 JOIN "visits" AS t1 ON (CAST(t0."visit" AS BIGINT) = CAST(t1."visit" AS BIGINT)) AND (CAST(t0."day" AS DATE) = CAST(t1."day" AS DATE)) JOIN "people" AS t2 ON (CAST(t1."person" AS BIGINT) = CAST(t2."id" AS BIGINT)) WHERE t2."household" IS NOT NULL AND t2."country" IS NOT NULL

-- constants
SELECT "c1", "c2" FROM (VALUES (CAST('it''s' AS VARCHAR), CAST('2020-02-29' AS DATE)), (CAST(NULL AS VARCHAR), CAST(NULL AS DATE))) AS t0("c1", "c2")

-- filter
SELECT CAST(t0."id" AS BIGINT) AS "p_id", (CASE WHEN isnan(t0."x") THEN CAST('nan' AS DOUBLE) ELSE t0."x" END) AS "p_x", t0."active" AS "p_active" FROM "people" AS t0 WHERE ((CASE WHEN isnan(t0."x") THEN CAST('nan' AS DOUBLE) ELSE t0."x" END) > CAST(1.5 AS DOUBLE))

-- filter, of no table
SELECT * FROM (<0>) AS t0 WHERE TRUE

-- project
SELECT t0."p_id" AS "c1", CAST(1 AS BIGINT) AS "c2" FROM (<0>) AS t0

-- join
SELECT t0."v_visit" AS "v_visit", t0."v_person" AS "v_person", t0."v_town" AS "v_town", t1."t_town" AS "t_town" FROM (<0>) AS t0 JOIN (<1>) AS t1 ON (t0."v_town" = t1."t_town")

-- join, left rows kept
SELECT t0."p_id" AS "p_id", t0."p_x" AS "p_x", t0."p_active" AS "p_active", t1."v_visit" AS "v_visit", t1."v_person" AS "v_person", t1."v_town" AS "v_town" FROM (<0>) AS t0 LEFT JOIN (<1>) AS t1 ON ((t0."p_id" = t1."v_person") AND TRUE)

-- join, right rows kept
SELECT t0."p_id" AS "p_id", t0."p_x" AS "p_x", t0."p_active" AS "p_active", t1."v_visit" AS "v_visit", t1."v_person" AS "v_person", t1."v_town" AS "v_town" FROM (<0>) AS t0 RIGHT JOIN (<1>) AS t1 ON (t0."p_id" = t1."v_person")

-- join, the side that is kept alone
SELECT t1."v_visit" AS "v_visit", t1."v_person" AS "v_person", t1."v_town" AS "v_town" FROM (<0>) AS t0 RIGHT JOIN (<1>) AS t1 ON (t0."p_id" = t1."v_person")

-- join, all rows kept
SELECT t0."p_id" AS "p_id", t0."p_x" AS "p_x", t0."p_active" AS "p_active", t1."v_visit" AS "v_visit", t1."v_person" AS "v_person", t1."v_town" AS "v_town", COALESCE(t0."p_id", t1."v_person") AS "c1" FROM (<0>) AS t0 FULL JOIN (<1>) AS t1 ON (t0."p_id" = t1."v_person")

-- lookup
SELECT t0."v_visit" AS "v_visit", t0."v_person" AS "v_person", t0."v_town" AS "v_town", (t1."c1" IS NOT NULL) AS "c1" FROM (<0>) AS t0 LEFT JOIN (SELECT t2."t_town" AS "t_town", 1 AS "c1" FROM (<1>) AS t2 GROUP BY t2."t_town") AS t1 ON (t0."v_town" = t1."t_town")

-- lookup, own rows
SELECT t0."p_id" AS "p_id", t0."p_x" AS "p_x", t0."p_active" AS "p_active", (t1."c1" IS NOT NULL) AS "c1" FROM (<0>) AS t0 LEFT JOIN (SELECT t2."v_person" AS "v_person", t2."v_visit" AS "v_visit", 1 AS "c1" FROM (<1>) AS t2 GROUP BY t2."v_person", t2."v_visit") AS t1 ON (t0."p_id" = t1."v_person") AND (t0."p_id" = t1."v_visit")

-- lookup, rows of one mark
SELECT t0."v_visit" AS "v_visit", t0."v_person" AS "v_person", t0."v_town" AS "v_town", (t1."c1" IS NOT NULL) AS "c1" FROM (<0>) AS t0 LEFT JOIN (SELECT t2."t_town" AS "t_town", 1 AS "c1" FROM (<1>) AS t2 GROUP BY t2."t_town") AS t1 ON (t0."v_town" = t1."t_town") WHERE (t1."c1" IS NOT NULL)

-- lookup, rows of the other mark
SELECT t0."v_visit" AS "v_visit", t0."v_person" AS "v_person", t0."v_town" AS "v_town", (t1."c1" IS NOT NULL) AS "c1" FROM (<0>) AS t0 LEFT JOIN (SELECT t2."t_town" AS "t_town", 1 AS "c1" FROM (<1>) AS t2 GROUP BY t2."t_town") AS t1 ON (t0."v_town" = t1."t_town") WHERE (t1."c1" IS NULL)

-- lookup by a condition
SELECT t0."v_visit" AS "v_visit", t0."v_person" AS "v_person", t0."v_town" AS "v_town", TRUE AS "c1" FROM (<0>) AS t0 WHERE EXISTS (SELECT 1 FROM (<1>) AS t1 WHERE (t0."v_town" = t1."t_town") AND (t1."t_town" = t0."v_town")) UNION ALL SELECT t0."v_visit" AS "v_visit", t0."v_person" AS "v_person", t0."v_town" AS "v_town", FALSE AS "c1" FROM (<0>) AS t0 WHERE (NOT EXISTS (SELECT 1 FROM (<1>) AS t1 WHERE (t0."v_town" = t1."t_town") AND (t1."t_town" = t0."v_town")))

-- lookup by a condition, rows of one mark
SELECT t0."v_visit" AS "v_visit", t0."v_person" AS "v_person", t0."v_town" AS "v_town", FALSE AS "c1" FROM (<0>) AS t0 WHERE (NOT EXISTS (SELECT 1 FROM (<1>) AS t1 WHERE (t1."t_town" = t0."v_town")))

-- intersect
SELECT t0."p_id" AS "c1", (CASE WHEN t0."p_x" = CAST(0 AS DOUBLE) THEN CAST(0 AS DOUBLE) WHEN isnan(t0."p_x") THEN CAST('nan' AS DOUBLE) ELSE t0."p_x" END) AS "c2", t0."p_active" AS "c3" FROM (<0>) AS t0 INTERSECT SELECT t0."q_id" AS "c1", (CASE WHEN t0."q_x" = CAST(0 AS DOUBLE) THEN CAST(0 AS DOUBLE) WHEN isnan(t0."q_x") THEN CAST('nan' AS DOUBLE) ELSE t0."q_x" END) AS "c2", t0."q_active" AS "c3" FROM (<1>) AS t0

-- except all
SELECT t0."p_id" AS "c1", (CASE WHEN t0."p_x" = CAST(0 AS DOUBLE) THEN CAST(0 AS DOUBLE) WHEN isnan(t0."p_x") THEN CAST('nan' AS DOUBLE) ELSE t0."p_x" END) AS "c2", t0."p_active" AS "c3" FROM (<0>) AS t0 EXCEPT ALL SELECT t0."q_id" AS "c1", (CASE WHEN t0."q_x" = CAST(0 AS DOUBLE) THEN CAST(0 AS DOUBLE) WHEN isnan(t0."q_x") THEN CAST('nan' AS DOUBLE) ELSE t0."q_x" END) AS "c2", t0."q_active" AS "c3" FROM (<1>) AS t0

-- union
SELECT t0."t_town" AS "c2" FROM (<0>) AS t0 UNION ALL SELECT t0."c1" AS "c2" FROM (<1>) AS t0

-- distinct
SELECT t1."p_id", t1."p_x", t1."p_active" FROM (SELECT t0."p_id" AS "p_id", (CASE WHEN t0."p_x" = CAST(0 AS DOUBLE) THEN CAST(0 AS DOUBLE) WHEN isnan(t0."p_x") THEN CAST('nan' AS DOUBLE) ELSE t0."p_x" END) AS "p_x", t0."p_active" AS "p_active" FROM (<0>) AS t0) AS t1 GROUP BY t1."p_id", t1."p_x", t1."p_active"

-- group
SELECT t0."v_person" AS "v_person", t0."v_town" AS "v_town", COUNT(*) AS "c1", COUNT(DISTINCT t0."v_visit") AS "c2", (CASE WHEN SUM(t0."v_visit") IS NOT NULL THEN CAST(LEAST(GREATEST(COALESCE(SUM(t0."v_visit"), 0), -4611686018427387904), 4611686018427387904) AS BIGINT) END) AS "c3", (CAST(SUM(t0."v_visit") AS DOUBLE) / (NULLIF(COUNT(t0."v_visit"), 0) * CAST(1.0 AS DOUBLE))) AS "c4", MIN(t0."v_town") AS "c5" FROM (<0>) AS t0 GROUP BY t0."v_person", t0."v_town"

-- group, numbers
SELECT t0."p_id" AS "p_id", (CAST(SUM((CASE WHEN t0."p_x" >= CAST((10.0) AS DOUBLE) THEN (CASE WHEN isnan(t0."p_x") THEN CAST(NULL AS BIGINT) ELSE CAST((100) AS BIGINT) END) WHEN t0."p_x" <= CAST((0.0) AS DOUBLE) THEN CAST((0) AS BIGINT) ELSE TRY_CAST(round(t0."p_x" * CAST((10.0) AS DOUBLE)) AS BIGINT) END)) AS DOUBLE) / CAST(10.0 AS DOUBLE)) AS "c1", MAX((CASE WHEN (NOT isnan(t0."p_x")) THEN (CASE WHEN t0."p_x" = CAST(0 AS DOUBLE) THEN CAST(0 AS DOUBLE) WHEN isnan(t0."p_x") THEN CAST('nan' AS DOUBLE) ELSE t0."p_x" END) END)) AS "c2" FROM (<0>) AS t0 GROUP BY t0."p_id"

-- group, no keys
SELECT COUNT(t0."t_town") AS "c1" FROM (<0>) AS t0

-- truncate
SELECT t2."v_visit", t2."v_person", t2."v_town" FROM (<0>) AS t2 JOIN (SELECT t1."@" FROM (SELECT t0."v_person" AS "@", COUNT(*) AS "#n" FROM (<0>) AS t0 GROUP BY t0."v_person") AS t1 WHERE (t1."#n" <= 3)) AS t3 ON (t2."v_person" = t3."@") UNION ALL SELECT CAST(t1."v_visit" AS BIGINT) AS "v_visit", CAST(t1."v_person" AS BIGINT) AS "v_person", t1."v_town" FROM (SELECT CAST(t0."v_visit" AS INTEGER) AS "v_visit", CAST(t0."v_person" AS INTEGER) AS "v_person", t0."v_town" AS "v_town", ROW_NUMBER() OVER (PARTITION BY CAST(t0."v_person" AS INTEGER) ORDER BY CAST((hash(xor(t0."v_visit", CAST(255 AS BIGINT))) >> 32) AS UINTEGER), CAST(t0."v_visit" AS INTEGER)) AS "#" FROM (SELECT t2."v_visit", t2."v_person", t2."v_town" FROM (<0>) AS t2 JOIN (SELECT t1."@" FROM (SELECT t0."v_person" AS "@", COUNT(*) AS "#n" FROM (<0>) AS t0 GROUP BY t0."v_person") AS t1 WHERE (t1."#n" > 3)) AS t3 ON (t2."v_person" = t3."@")) AS t0) AS t1 WHERE (t1."#" <= 3)

-- truncate, by all columns
SELECT t1."n_word", t1."n_owner" FROM (SELECT t0."n_word" AS "n_word", t0."n_owner" AS "n_owner", COUNT(*) OVER (PARTITION BY t0."n_owner") AS "#n", CAST((hash(xor(t0."n_owner", CAST(255 AS BIGINT))) >> 2) AS BIGINT) AS "#u", ROW_NUMBER() OVER (PARTITION BY t0."n_owner" ORDER BY t0."n_word") AS "#p" FROM (<0>) AS t0) AS t1 WHERE ((((t1."#p" * 2) + (t1."#u" % t1."#n")) % t1."#n") < 2)

-- truncate, a number in the order
SELECT t2."p_id", t2."p_x", t2."p_active" FROM (<0>) AS t2 JOIN (SELECT t1."@" FROM (SELECT t0."p_id" AS "@", COUNT(*) AS "#n" FROM (<0>) AS t0 GROUP BY t0."p_id") AS t1 WHERE (t1."#n" <= 1)) AS t3 ON (t2."p_id" = t3."@") UNION ALL SELECT CAST(t1."p_id" AS BIGINT) AS "p_id", t1."p_x", t1."p_active" FROM (SELECT CAST(t0."p_id" AS INTEGER) AS "p_id", t0."p_x" AS "p_x", t0."p_active" AS "p_active", ROW_NUMBER() OVER (PARTITION BY CAST(t0."p_id" AS INTEGER) ORDER BY CAST((hash(xor(hash(t0."p_id", t0."p_x", t0."p_active"), CAST(255 AS UBIGINT))) >> 32) AS UINTEGER), t0."p_x", t0."p_active", signbit(t0."p_x")) AS "#" FROM (SELECT t2."p_id", t2."p_x", t2."p_active" FROM (<0>) AS t2 JOIN (SELECT t1."@" FROM (SELECT t0."p_id" AS "@", COUNT(*) AS "#n" FROM (<0>) AS t0 GROUP BY t0."p_id") AS t1 WHERE (t1."#n" > 1)) AS t3 ON (t2."p_id" = t3."@")) AS t0) AS t1 WHERE (t1."#" <= 1)

-- truncate, names only
SELECT t2."c1" FROM (SELECT t1."c1", unnest(range((CASE WHEN t1."#n" <= 2 THEN t1."#n" ELSE 2 END))) AS "#n" FROM (SELECT t0."c1" AS "c1", COUNT(*) AS "#n" FROM (<0>) AS t0 GROUP BY t0."c1") AS t1) AS t2

-- truncate keys
SELECT CAST(t1."v_visit" AS BIGINT) AS "v_visit", CAST(t1."v_person" AS BIGINT) AS "v_person", t1."v_town" FROM (SELECT CAST(t0."v_visit" AS INTEGER) AS "v_visit", CAST(t0."v_person" AS INTEGER) AS "v_person", t0."v_town" AS "v_town", ROW_NUMBER() OVER (PARTITION BY hash(t0."v_town"), t0."v_town" ORDER BY CAST((hash(xor(t0."v_visit", CAST(255 AS BIGINT))) >> 32) AS UINTEGER), CAST(t0."v_visit" AS INTEGER)) AS "#" FROM (<0>) AS t0) AS t1 WHERE (t1."#" <= 2)

-- truncate keys, by all columns
SELECT CAST(t1."p_id" AS BIGINT) AS "p_id", t1."p_x", t1."p_active" FROM (SELECT CAST(t0."p_id" AS INTEGER) AS "p_id", t0."p_x" AS "p_x", t0."p_active" AS "p_active", ROW_NUMBER() OVER (PARTITION BY (CASE WHEN t0."p_x" = CAST(0 AS DOUBLE) THEN CAST(0 AS DOUBLE) WHEN isnan(t0."p_x") THEN CAST('nan' AS DOUBLE) ELSE t0."p_x" END), t0."p_active" ORDER BY CAST((hash(xor(t0."p_id", CAST(255 AS BIGINT))) >> 32) AS UINTEGER), CAST(t0."p_id" AS INTEGER)) AS "#" FROM (<0>) AS t0) AS t1 WHERE (t1."#" <= 2)

-- truncate keys, without a key
SELECT t1."n_word", t1."n_owner" FROM (SELECT t0."n_word" AS "n_word", t0."n_owner" AS "n_owner", ROW_NUMBER() OVER (PARTITION BY hash(t0."n_word"), t0."n_word" ORDER BY CAST((hash(xor(hash(t0."n_word", t0."n_owner", t0."@"), CAST(255 AS UBIGINT))) >> 32) AS UINTEGER), t0."n_owner", t0."@") AS "#" FROM (SELECT t0.*, ROW_NUMBER() OVER (PARTITION BY hash(t0."n_word"), t0."n_word", t0."n_owner") AS "@" FROM (<0>) AS t0) AS t0) AS t1 WHERE (t1."#" <= 1)

-- truncate keys, in all
SELECT CAST(t1."v_visit" AS BIGINT) AS "v_visit", CAST(t1."v_person" AS BIGINT) AS "v_person", t1."v_town" FROM (SELECT CAST(t0."v_visit" AS INTEGER) AS "v_visit", CAST(t0."v_person" AS INTEGER) AS "v_person", t0."v_town" AS "v_town", ROW_NUMBER() OVER (ORDER BY CAST((hash(xor(hash(t0."v_visit", t0."v_person", t0."v_town"), CAST(255 AS UBIGINT))) >> 32) AS UINTEGER), CAST(t0."v_visit" AS INTEGER), CAST(t0."v_person" AS INTEGER), t0."v_town") AS "#" FROM (<0>) AS t0) AS t1 WHERE (t1."#" <= 5)

-- numbers
SELECT (CASE WHEN t0."p_x" = CAST(0 AS DOUBLE) THEN CAST(0 AS DOUBLE) WHEN isnan(t0."p_x") THEN CAST('nan' AS DOUBLE) ELSE t0."p_x" END) AS "p_x", t0."p_active" AS "p_active", ROW_NUMBER() OVER (PARTITION BY (CASE WHEN t0."p_x" = CAST(0 AS DOUBLE) THEN CAST(0 AS DOUBLE) WHEN isnan(t0."p_x") THEN CAST('nan' AS DOUBLE) ELSE t0."p_x" END), t0."p_active") AS "number" FROM (<0>) AS t0

-- truncate keys, the first by a column
SELECT CAST(t1."v_visit" AS BIGINT) AS "v_visit", CAST(t1."v_person" AS BIGINT) AS "v_person", t1."v_town" FROM (SELECT CAST(t0."v_visit" AS INTEGER) AS "v_visit", CAST(t0."v_person" AS INTEGER) AS "v_person", t0."v_town" AS "v_town", ROW_NUMBER() OVER (PARTITION BY hash(t0."v_town"), t0."v_town" ORDER BY t0."v_person" DESC NULLS LAST, CAST((hash(xor(t0."v_visit", CAST(255 AS BIGINT))) >> 32) AS UINTEGER), CAST(t0."v_visit" AS INTEGER)) AS "#" FROM (<0>) AS t0) AS t1 WHERE (t1."#" <= 2)

-- window
SELECT t0."v_visit" AS "v_visit", t0."v_person" AS "v_person", t0."v_town" AS "v_town", ROW_NUMBER() OVER (PARTITION BY t0."v_person" ORDER BY t0."v_town" ASC NULLS FIRST, t0."v_visit" ASC NULLS LAST) AS "c1", RANK() OVER (PARTITION BY t0."v_person" ORDER BY t0."v_town" ASC NULLS FIRST) AS "c2", LAG(t0."v_town", 2, t0."v_town") OVER (PARTITION BY t0."v_person" ORDER BY t0."v_town" ASC NULLS FIRST, t0."v_visit" ASC NULLS LAST) AS "c3", MAX(t0."v_town") OVER (PARTITION BY t0."v_person" RANGE BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING) AS "c4", (CASE WHEN SUM(t0."v_visit") OVER (PARTITION BY t0."v_person" ORDER BY t0."v_town" ASC NULLS FIRST, t0."v_visit" ASC NULLS LAST ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) IS NOT NULL THEN CAST(LEAST(GREATEST(COALESCE(SUM(t0."v_visit") OVER (PARTITION BY t0."v_person" ORDER BY t0."v_town" ASC NULLS FIRST, t0."v_visit" ASC NULLS LAST ROWS BETWEEN 1 PRECEDING AND CURRENT ROW), 0), -4611686018427387904), 4611686018427387904) AS BIGINT) END) AS "c5" FROM (<0>) AS t0

-- window, ends of peers
SELECT t0."v_visit" AS "v_visit", t0."v_person" AS "v_person", t0."v_town" AS "v_town", FIRST_VALUE(t0."v_visit") OVER (ORDER BY t0."v_town" ASC NULLS LAST, t0."v_visit" ASC NULLS LAST ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING) AS "c1", LAST_VALUE(t0."v_visit") OVER (PARTITION BY t0."v_town" ORDER BY t0."v_town" ASC NULLS LAST, t0."v_visit" ASC NULLS LAST ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING) AS "c2" FROM (<0>) AS t0

-- window, without a key
SELECT t0."n_word" AS "n_word", t0."n_owner" AS "n_owner", NTILE(3) OVER (PARTITION BY t0."n_owner" ORDER BY t0."#") AS "c1", COUNT(*) OVER (PARTITION BY t0."n_owner" ORDER BY t0."#" ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS "c2" FROM (SELECT t1.*, ROW_NUMBER() OVER (PARTITION BY t1."n_owner" ORDER BY t1."n_word" ASC NULLS LAST) AS "#" FROM (<0>) AS t1) AS t0

-- window, numbers
SELECT t0."p_id" AS "p_id", t0."p_x" AS "p_x", t0."p_active" AS "p_active", (CAST(SUM((CASE WHEN t0."p_x" >= CAST((10.0) AS DOUBLE) THEN (CASE WHEN isnan(t0."p_x") THEN CAST(NULL AS BIGINT) ELSE CAST((100) AS BIGINT) END) WHEN t0."p_x" <= CAST((0.0) AS DOUBLE) THEN CAST((0) AS BIGINT) ELSE TRY_CAST(round(t0."p_x" * CAST((10.0) AS DOUBLE)) AS BIGINT) END)) OVER (PARTITION BY (CASE WHEN t0."p_x" = CAST(0 AS DOUBLE) THEN CAST(0 AS DOUBLE) WHEN isnan(t0."p_x") THEN CAST('nan' AS DOUBLE) ELSE t0."p_x" END) ORDER BY (CASE WHEN t0."p_x" = CAST(0 AS DOUBLE) THEN CAST(0 AS DOUBLE) WHEN isnan(t0."p_x") THEN CAST('nan' AS DOUBLE) ELSE t0."p_x" END) DESC NULLS LAST RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS DOUBLE) / (NULLIF(COUNT((CASE WHEN t0."p_x" >= CAST((10.0) AS DOUBLE) THEN (CASE WHEN isnan(t0."p_x") THEN CAST(NULL AS BIGINT) ELSE CAST((100) AS BIGINT) END) WHEN t0."p_x" <= CAST((0.0) AS DOUBLE) THEN CAST((0) AS BIGINT) ELSE TRY_CAST(round(t0."p_x" * CAST((10.0) AS DOUBLE)) AS BIGINT) END)) OVER (PARTITION BY (CASE WHEN t0."p_x" = CAST(0 AS DOUBLE) THEN CAST(0 AS DOUBLE) WHEN isnan(t0."p_x") THEN CAST('nan' AS DOUBLE) ELSE t0."p_x" END) ORDER BY (CASE WHEN t0."p_x" = CAST(0 AS DOUBLE) THEN CAST(0 AS DOUBLE) WHEN isnan(t0."p_x") THEN CAST('nan' AS DOUBLE) ELSE t0."p_x" END) DESC NULLS LAST RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW), 0) * CAST(10.0 AS DOUBLE))) AS "c1" FROM (<0>) AS t0

-- contributions
SELECT t1."v_person" AS "v_person", t1."v_town" AS "v_town", CAST(LEAST(GREATEST(COALESCE(COUNT(*), 0), -1125899906842624), 1125899906842624) AS BIGINT) AS "e0_0" FROM (SELECT t0."v_person" AS "v_person", t0."v_town" AS "v_town" FROM (<0>) AS t0) AS t1 GROUP BY t1."v_person", t1."v_town"

-- clip
SELECT t1."v_person" AS "v_person", t1."v_town" AS "v_town", (CASE WHEN t1."#" >= CAST(42535295865117307932921825928971026432 AS HUGEINT) THEN CAST(0 AS BIGINT) WHEN t1."#" > CAST(25 AS HUGEINT) THEN CAST(trunc(CAST(t1."e0_0" AS DOUBLE) * (CAST(4.9999999999954525 AS DOUBLE) / sqrt(CAST(t1."#" AS DOUBLE)))) AS BIGINT) ELSE t1."e0_0" END) AS "e0_0" FROM (WITH "##" AS MATERIALIZED (<0>) SELECT t2."v_person", t2."v_town", t2."e0_0", t3."#" AS "#" FROM "##" AS t2 JOIN (SELECT t0."v_person" AS "@", ((LEAST(SUM(((CAST(COALESCE(t0."e0_0", 0) AS HUGEINT) * CAST(COALESCE(t0."e0_0", 0) AS HUGEINT))) >> 50), CAST(37778931862957161709568 AS HUGEINT)) * CAST(1125899906842624 AS HUGEINT)) + SUM(((CAST(COALESCE(t0."e0_0", 0) AS HUGEINT) * CAST(COALESCE(t0."e0_0", 0) AS HUGEINT))) % CAST(1125899906842624 AS HUGEINT))) AS "#" FROM "##" AS t0 GROUP BY t0."v_person") AS t3 ON (t2."v_person" = t3."@")) AS t1

-- clip, one number
SELECT t0."v_person" AS "v_person", (CASE WHEN t0."e0_0" > CAST(5 AS BIGINT) THEN CAST(5 AS BIGINT) WHEN t0."e0_0" < CAST((-5) AS BIGINT) THEN CAST((-5) AS BIGINT) ELSE t0."e0_0" END) AS "e0_0" FROM (<0>) AS t0

-- clip, one row
SELECT t1."p_id" AS "p_id", (CASE WHEN t1."#" >= CAST(42535295865117307932921825928971026432 AS HUGEINT) THEN CAST(0 AS BIGINT) WHEN t1."#" > CAST(8 AS HUGEINT) THEN CAST(trunc(CAST(t1."e0_0" AS DOUBLE) * (CAST(7.999999999992724 AS DOUBLE) / CAST(t1."#" AS DOUBLE))) AS BIGINT) ELSE t1."e0_0" END) AS "e0_0", (CASE WHEN t1."#" >= CAST(42535295865117307932921825928971026432 AS HUGEINT) THEN CAST(0 AS BIGINT) WHEN t1."#" > CAST(8 AS HUGEINT) THEN CAST(trunc(CAST(t1."e0_1" AS DOUBLE) * (CAST(7.999999999992724 AS DOUBLE) / CAST(t1."#" AS DOUBLE))) AS BIGINT) ELSE t1."e0_1" END) AS "e0_1" FROM (SELECT t0."p_id", t0."e0_0", t0."e0_1", (abs(CAST(COALESCE(t0."e0_0", 0) AS HUGEINT)) + abs(CAST(COALESCE(t0."e0_1", 0) AS HUGEINT))) AS "#" FROM (<0>) AS t0) AS t1

-- clip, added up
SELECT t1."v_person" AS "v_person", t1."v_town" AS "v_town", (CASE WHEN t1."#" >= CAST(42535295865117307932921825928971026432 AS HUGEINT) THEN CAST(0 AS BIGINT) WHEN t1."#" > CAST(5 AS HUGEINT) THEN CAST(trunc(CAST(t1."e0_0" AS DOUBLE) * (CAST(4.9999999999954525 AS DOUBLE) / CAST(t1."#" AS DOUBLE))) AS BIGINT) ELSE t1."e0_0" END) AS "e0_0" FROM (WITH "##" AS MATERIALIZED (<0>) SELECT t2."v_person", t2."v_town", t2."e0_0", t3."#" AS "#" FROM "##" AS t2 JOIN (SELECT t0."v_person" AS "@", SUM(abs(CAST(COALESCE(t0."e0_0", 0) AS HUGEINT))) AS "#" FROM "##" AS t0 GROUP BY t0."v_person") AS t3 ON (t2."v_person" = t3."@")) AS t1

-- clip, rows that no key tells apart
SELECT t1."v_person" AS "v_person", (CASE WHEN t1."#" >= CAST(42535295865117307932921825928971026432 AS HUGEINT) THEN CAST(0 AS BIGINT) WHEN t1."#" > CAST(5 AS HUGEINT) THEN CAST(trunc(CAST(t1."e0_0" AS DOUBLE) * (CAST(4.9999999999954525 AS DOUBLE) / CAST(t1."#" AS DOUBLE))) AS BIGINT) ELSE t1."e0_0" END) AS "e0_0" FROM (WITH "##" AS MATERIALIZED (<0>) SELECT t2."v_person", t2."e0_0", t3."#" AS "#" FROM "##" AS t2 JOIN (SELECT t0."v_person" AS "@", SUM(abs(CAST(COALESCE(t0."e0_0", 0) AS HUGEINT))) AS "#" FROM "##" AS t0 GROUP BY t0."v_person") AS t3 ON (t2."v_person" = t3."@")) AS t1

-- norms, rows that no key tells apart
SELECT t0."v_person" AS "v_person", CAST((CASE WHEN CAST(SUM(abs(CAST(t0."e0_0" AS HUGEINT))) AS DOUBLE) < CAST(1125899906842624 AS DOUBLE) THEN ceil(CAST(SUM(abs(CAST(t0."e0_0" AS HUGEINT))) AS DOUBLE)) ELSE CAST(1125899906842624 AS DOUBLE) END) AS BIGINT) AS "size" FROM (<0>) AS t0 GROUP BY t0."v_person"

-- norms, added up
SELECT t0."v_person" AS "v_person", CAST((CASE WHEN CAST(SUM(abs(CAST(t0."e0_0" AS HUGEINT))) AS DOUBLE) < CAST(1125899906842624 AS DOUBLE) THEN ceil(CAST(SUM(abs(CAST(t0."e0_0" AS HUGEINT))) AS DOUBLE)) ELSE CAST(1125899906842624 AS DOUBLE) END) AS BIGINT) AS "size" FROM (<0>) AS t0 GROUP BY t0."v_person"

-- norms
SELECT t0."v_person" AS "v_person", CAST((CASE WHEN sqrt(CAST(((LEAST(SUM(((CAST(t0."e0_0" AS HUGEINT) * CAST(t0."e0_0" AS HUGEINT))) >> 50), CAST(37778931862957161709568 AS HUGEINT)) * CAST(1125899906842624 AS HUGEINT)) + SUM(((CAST(t0."e0_0" AS HUGEINT) * CAST(t0."e0_0" AS HUGEINT))) % CAST(1125899906842624 AS HUGEINT))) AS DOUBLE)) < CAST(1125899906842624 AS DOUBLE) THEN ceil(sqrt(CAST(((LEAST(SUM(((CAST(t0."e0_0" AS HUGEINT) * CAST(t0."e0_0" AS HUGEINT))) >> 50), CAST(37778931862957161709568 AS HUGEINT)) * CAST(1125899906842624 AS HUGEINT)) + SUM(((CAST(t0."e0_0" AS HUGEINT) * CAST(t0."e0_0" AS HUGEINT))) % CAST(1125899906842624 AS HUGEINT))) AS DOUBLE))) ELSE CAST(1125899906842624 AS DOUBLE) END) AS BIGINT) AS "size" FROM (<0>) AS t0 GROUP BY t0."v_person"

-- norms, one number
SELECT t0."v_person" AS "v_person", abs(t0."e0_0") AS "size" FROM (<0>) AS t0

-- arcs
SELECT t1."p_id" AS "p_id", t1."v_visit" AS "v_visit", CAST((hash(xor(hash(t1."p_id", t1."v_visit"), CAST(255 AS UBIGINT))) >> 32) AS BIGINT) AS "order", CAST(LEAST(GREATEST(COALESCE(COUNT(*), 0), -68719476736), 68719476736) AS BIGINT) AS "size" FROM (SELECT t0."p_id" AS "p_id", t0."v_visit" AS "v_visit" FROM (<0>) AS t0) AS t1 GROUP BY t1."p_id", t1."v_visit"

-- arcs of texts
SELECT t1."t_town" AS "t_town", t1."u_town" AS "u_town", CAST((hash(xor(hash(t1."t_town", t1."u_town"), CAST(255 AS UBIGINT))) >> 32) AS BIGINT) AS "order", CAST(LEAST(GREATEST(COALESCE(COUNT(*), 0), -68719476736), 68719476736) AS BIGINT) AS "size" FROM (SELECT t0."t_town" AS "t_town", t0."u_town" AS "u_town" FROM (<0>) AS t0) AS t1 GROUP BY t1."t_town", t1."u_town"

-- arcs of numbers
SELECT t1."p_x" AS "p_x", t1."q_x" AS "q_x", CAST((hash(xor(hash(t1."p_x", t1."q_x"), CAST(255 AS UBIGINT))) >> 32) AS BIGINT) AS "order", CAST(LEAST(GREATEST(COALESCE(COUNT(*), 0), -68719476736), 68719476736) AS BIGINT) AS "size" FROM (SELECT CAST((CASE WHEN t0."p_x" = CAST(0 AS DOUBLE) THEN CAST(0 AS DOUBLE) WHEN isnan(t0."p_x") THEN CAST('nan' AS DOUBLE) ELSE t0."p_x" END) AS VARCHAR) AS "p_x", CAST((CASE WHEN t0."q_x" = CAST(0 AS DOUBLE) THEN CAST(0 AS DOUBLE) WHEN isnan(t0."q_x") THEN CAST('nan' AS DOUBLE) ELSE t0."q_x" END) AS VARCHAR) AS "q_x" FROM (<0>) AS t0) AS t1 GROUP BY t1."p_x", t1."q_x"

-- join sum
SELECT CAST(LEAST(GREATEST(COALESCE(SUM(t1."#0_0"), 0), -4611686018427387904), 4611686018427387904) AS BIGINT) AS "total" FROM (SELECT (CASE WHEN t0."p_active" THEN (CASE WHEN t0."p_x" >= CAST((5.0) AS DOUBLE) THEN (CASE WHEN isnan(t0."p_x") THEN CAST(NULL AS BIGINT) ELSE CAST((5) AS BIGINT) END) WHEN t0."p_x" <= CAST((-5.0) AS DOUBLE) THEN CAST((-5) AS BIGINT) ELSE TRY_CAST(round(t0."p_x" * CAST((1.0) AS DOUBLE)) AS BIGINT) END) END) AS "#0_0" FROM (<0>) AS t0) AS t1

-- multiplicities
SELECT t2."#n" AS "times", COUNT(*) AS "values" FROM (SELECT COUNT(*) AS "#n" FROM (SELECT t0."v_town" AS "#v" FROM (<0>) AS t0 WHERE (t0."v_town" IS NOT NULL)) AS t1 GROUP BY t1."#v") AS t2 GROUP BY t2."#n"

-- multiplicities by keys
SELECT t2."#k0" AS "p_x", t2."#k1" AS "p_active", t2."#n" AS "times", COUNT(*) AS "values" FROM (SELECT t1."#k0", t1."#k1", COUNT(*) AS "#n" FROM (SELECT (CASE WHEN t0."p_x" = CAST(0 AS DOUBLE) THEN CAST(0 AS DOUBLE) WHEN isnan(t0."p_x") THEN CAST('nan' AS DOUBLE) ELSE t0."p_x" END) AS "#k0", t0."p_active" AS "#k1", (CASE WHEN t0."p_x" = CAST(0 AS DOUBLE) THEN CAST(0 AS DOUBLE) WHEN isnan(t0."p_x") THEN CAST('nan' AS DOUBLE) ELSE t0."p_x" END) AS "#v" FROM (<0>) AS t0 WHERE (NOT isnan(t0."p_x")) AND t0."p_active") AS t1 GROUP BY t1."#k0", t1."#k1", t1."#v") AS t2 GROUP BY t2."#k0", t2."#k1", t2."#n"

-- shares
SELECT t1."p_id", t1."v_person", CAST(LEAST(GREATEST(COALESCE(COUNT(*), 0), -68719476736), 68719476736) AS BIGINT) AS "weight" FROM (SELECT (CASE WHEN t1."p_id" <= t1."v_person" THEN t1."p_id" ELSE t1."v_person" END) AS "p_id", (CASE WHEN t1."p_id" <= t1."v_person" THEN t1."v_person" ELSE t1."p_id" END) AS "v_person" FROM (SELECT t0."p_id" AS "p_id", t0."v_person" AS "v_person" FROM (<0>) AS t0) AS t1) AS t1 GROUP BY t1."p_id", t1."v_person"

-- shares of texts, in cells
SELECT t1."p_id", t1."t_town", CAST(LEAST(GREATEST(COALESCE(SUM(t1."#0"), 0), -68719476736), 68719476736) AS BIGINT) AS "weight" FROM (SELECT t0."t_town" AS "t_town", t0."p_id" AS "p_id", (CASE WHEN t0."p_x" >= CAST((5.0) AS DOUBLE) THEN (CASE WHEN isnan(t0."p_x") THEN CAST(NULL AS BIGINT) ELSE CAST((5) AS BIGINT) END) WHEN t0."p_x" <= CAST((-5.0) AS DOUBLE) THEN CAST((-5) AS BIGINT) ELSE TRY_CAST(round(t0."p_x" * CAST((1.0) AS DOUBLE)) AS BIGINT) END) AS "#0" FROM (<0>) AS t0) AS t1 GROUP BY t1."p_id", t1."t_town"

-- shares, names may be NULL
SELECT t1."p_id", t1."v_person", t1."v_visit", CAST(LEAST(GREATEST(COALESCE(COUNT(t1."#0"), 0), -68719476736), 68719476736) AS BIGINT) AS "weight" FROM (SELECT (CASE WHEN t1."p_id" <= t1."v_person" THEN t1."p_id" ELSE t1."v_person" END) AS "p_id", (CASE WHEN t1."p_id" <= t1."v_person" THEN t1."v_person" ELSE t1."p_id" END) AS "v_person", t1."v_visit" AS "v_visit", t1."#0" AS "#0" FROM (SELECT (CASE WHEN t1."v_person" <= t1."v_visit" THEN t1."v_person" ELSE t1."v_visit" END) AS "v_person", (CASE WHEN t1."v_person" <= t1."v_visit" THEN t1."v_visit" ELSE t1."v_person" END) AS "v_visit", t1."p_id" AS "p_id", t1."#0" AS "#0" FROM (SELECT (CASE WHEN t1."p_id" <= t1."v_person" THEN t1."p_id" ELSE t1."v_person" END) AS "p_id", (CASE WHEN t1."p_id" <= t1."v_person" THEN t1."v_person" ELSE t1."p_id" END) AS "v_person", t1."v_visit" AS "v_visit", t1."#0" AS "#0" FROM (SELECT COALESCE(t0."p_id", t0."v_person", t0."v_visit") AS "p_id", COALESCE(t0."v_person", t0."v_visit", t0."p_id") AS "v_person", COALESCE(t0."v_visit", t0."p_id", t0."v_person") AS "v_visit", (CASE WHEN (t0."v_town" IS NOT NULL) THEN 1 END) AS "#0" FROM (<0>) AS t0 WHERE ((t0."p_id" IS NOT NULL) OR (t0."v_person" IS NOT NULL) OR (t0."v_visit" IS NOT NULL))) AS t1) AS t1) AS t1) AS t1 GROUP BY t1."p_id", t1."v_person", t1."v_visit"

-- shares of five
SELECT t1."c0", t1."c1", t1."c2", t1."c3", t1."c4", CAST(LEAST(GREATEST(COALESCE(COUNT(*), 0), -68719476736), 68719476736) AS BIGINT) AS "weight" FROM (SELECT t2."@"[1] AS "c0", t2."@"[2] AS "c1", t2."@"[3] AS "c2", t2."@"[4] AS "c3", t2."@"[5] AS "c4" FROM (SELECT t1.*, list_sort([t1."c0", t1."c1", t1."c2", t1."c3", t1."c4"]) AS "@" FROM (SELECT t0."c0" AS "c0", t0."c1" AS "c1", t0."c2" AS "c2", t0."c3" AS "c3", t0."c4" AS "c4" FROM (<0>) AS t0) AS t1) AS t2) AS t1 GROUP BY t1."c0", t1."c1", t1."c2", t1."c3", t1."c4"

-- shares, values with room for one row
SELECT t1."p_id", t1."v_visit", CAST(LEAST(GREATEST(COALESCE(COUNT(*), 0), -68719476736), 68719476736) AS BIGINT) AS "weight" FROM (SELECT (CASE WHEN t1."p_id" <= t1."v_visit" THEN t1."p_id" ELSE t1."v_visit" END) AS "p_id", (CASE WHEN t1."p_id" <= t1."v_visit" THEN t1."v_visit" ELSE t1."p_id" END) AS "v_visit" FROM (SELECT ('e' || CAST(t0."p_id" AS VARCHAR)) AS "p_id", ('v' || CAST(t0."v_visit" AS VARCHAR)) AS "v_visit" FROM (<0>) AS t0) AS t1) AS t1 GROUP BY t1."p_id", t1."v_visit"

-- largest
SELECT t1."size" FROM (SELECT (CASE WHEN t0."p_x" >= CAST((10.0) AS DOUBLE) THEN (CASE WHEN isnan(t0."p_x") THEN CAST(NULL AS BIGINT) ELSE CAST((100) AS BIGINT) END) WHEN t0."p_x" <= CAST((0.0) AS DOUBLE) THEN CAST((0) AS BIGINT) ELSE TRY_CAST(round(t0."p_x" * CAST((10.0) AS DOUBLE)) AS BIGINT) END) AS "size" FROM (<0>) AS t0) AS t1 WHERE t1."size" > 0 ORDER BY t1."size" DESC LIMIT 9

-- largest, negated
SELECT t1."size" FROM (SELECT (- (CASE WHEN t0."p_active" THEN (CASE WHEN t0."p_x" >= CAST((5.0) AS DOUBLE) THEN (CASE WHEN isnan(t0."p_x") THEN CAST(NULL AS BIGINT) ELSE CAST((5) AS BIGINT) END) WHEN t0."p_x" <= CAST((-5.0) AS DOUBLE) THEN CAST((-5) AS BIGINT) ELSE TRY_CAST(round(t0."p_x" * CAST((1.0) AS DOUBLE)) AS BIGINT) END) END)) AS "size" FROM (<0>) AS t0) AS t1 WHERE t1."size" > 0 ORDER BY t1."size" DESC LIMIT 9

-- tally
SELECT CAST(LEAST(GREATEST(COALESCE(COUNT(t1."#0_0"), 0), -4611686018427387904), 4611686018427387904) AS BIGINT) AS "m0_0", CAST(LEAST(GREATEST(COALESCE(COUNT(t1."#1_0"), 0), -4611686018427387904), 4611686018427387904) AS BIGINT) AS "m1_0", CAST(LEAST(GREATEST(COALESCE(SUM(t1."#2_0"), 0), -4611686018427387904), 4611686018427387904) AS BIGINT) AS "m2_0" FROM (SELECT (CASE WHEN t0."p_active" THEN 1 END) AS "#0_0", (CASE WHEN (NOT isnan(t0."p_x")) THEN 1 END) AS "#1_0", (CASE WHEN t0."p_active" THEN (CASE WHEN t0."p_x" >= CAST((5.0) AS DOUBLE) THEN (CASE WHEN isnan(t0."p_x") THEN CAST(NULL AS BIGINT) ELSE CAST((5) AS BIGINT) END) WHEN t0."p_x" <= CAST((-5.0) AS DOUBLE) THEN CAST((-5) AS BIGINT) ELSE TRY_CAST(round(t0."p_x" * CAST((1.0) AS DOUBLE)) AS BIGINT) END) END) AS "#2_0" FROM (<0>) AS t0) AS t1

-- tally, moments
SELECT t1."p_active" AS "p_active", CAST(LEAST(GREATEST(COALESCE(COALESCE(SUM(t1."#0_0" * t1."#0_0"), 0), 0), -4611686018427387904), 4611686018427387904) AS BIGINT) AS "m0_0", CAST(LEAST(GREATEST(COALESCE(((2 * CAST(100 AS HUGEINT) * COALESCE(SUM(t1."#0_0"), 0)) - (2 * COALESCE(SUM(t1."#0_0" * t1."#0_0"), 0))), 0), -4611686018427387904), 4611686018427387904) AS BIGINT) AS "m0_1", CAST(LEAST(GREATEST(COALESCE((((CAST(100 AS HUGEINT) * CAST(100 AS HUGEINT) * COUNT(t1."#0_0")) - (2 * CAST(100 AS HUGEINT) * COALESCE(SUM(t1."#0_0"), 0))) + COALESCE(SUM(t1."#0_0" * t1."#0_0"), 0)), 0), -4611686018427387904), 4611686018427387904) AS BIGINT) AS "m0_2", CAST(LEAST(GREATEST(COALESCE((CAST(10000 AS HUGEINT) * (COUNT(t1."#0_1") - COUNT(t1."#0_0"))), 0), -4611686018427387904), 4611686018427387904) AS BIGINT) AS "m0_3" FROM (SELECT t0."p_active" AS "p_active", (CASE WHEN t0."p_x" >= CAST((10.0) AS DOUBLE) THEN (CASE WHEN isnan(t0."p_x") THEN CAST(NULL AS BIGINT) ELSE CAST((100) AS BIGINT) END) WHEN t0."p_x" <= CAST((0.0) AS DOUBLE) THEN CAST((0) AS BIGINT) ELSE TRY_CAST(round(t0."p_x" * CAST((10.0) AS DOUBLE)) AS BIGINT) END) AS "#0_0", 1 AS "#0_1" FROM (<0>) AS t0) AS t1 GROUP BY t1."p_active"

-- tally, clipped
SELECT t1."v_town" AS "v_town", CAST(LEAST(GREATEST(COALESCE(SUM(t1."#0_0"), 0), -4611686018427387904), 4611686018427387904) AS BIGINT) AS "m0_0" FROM (SELECT t0."v_town" AS "v_town", t0."e0_0" AS "#0_0" FROM (<0>) AS t0) AS t1 GROUP BY t1."v_town"

-- tally, a number is the key
SELECT t1."p_x" AS "p_x", CAST(LEAST(GREATEST(COALESCE(COUNT(*), 0), -4611686018427387904), 4611686018427387904) AS BIGINT) AS "m0_0" FROM (SELECT (CASE WHEN t0."p_x" = CAST(0 AS DOUBLE) THEN CAST(0 AS DOUBLE) WHEN isnan(t0."p_x") THEN CAST('nan' AS DOUBLE) ELSE t0."p_x" END) AS "p_x" FROM (<0>) AS t0) AS t1 GROUP BY t1."p_x"

-- tally, a day is the key
SELECT t1."b_born" AS "b_born", CAST(LEAST(GREATEST(COALESCE(COUNT(*), 0), -4611686018427387904), 4611686018427387904) AS BIGINT) AS "m0_0" FROM (SELECT t0."b_born" AS "b_born" FROM (<0>) AS t0 WHERE COALESCE((t0."b_born" >= DATE '0001-01-01') AND (t0."b_born" <= DATE '9999-12-31'), TRUE)) AS t1 GROUP BY t1."b_born"

-- tally, a day is the key in the engine
SELECT t1."b_born" AS "b_born", CAST(LEAST(GREATEST(COALESCE(COUNT(*), 0), -4611686018427387904), 4611686018427387904) AS BIGINT) AS "m0_0" FROM (SELECT t0."b_born" AS "b_born" FROM (<0>) AS t0) AS t1 GROUP BY t1."b_born"

-- ranks
SELECT t1."p_active", t1."value", COUNT(*) AS "count" FROM (SELECT t0."p_active" AS "p_active", (CASE WHEN t0."p_x" >= CAST((10.0) AS DOUBLE) THEN (CASE WHEN isnan(t0."p_x") THEN CAST(NULL AS BIGINT) ELSE CAST((100) AS BIGINT) END) WHEN t0."p_x" <= CAST((0.0) AS DOUBLE) THEN CAST((0) AS BIGINT) ELSE TRY_CAST(round(t0."p_x" * CAST((10.0) AS DOUBLE)) AS BIGINT) END) AS "value" FROM (<0>) AS t0 WHERE t0."p_active") AS t1 WHERE t1."value" IS NOT NULL GROUP BY t1."p_active", t1."value"

-- ranks, ties
SELECT t1."value", COUNT(*) AS "count" FROM (SELECT (((CASE WHEN t0."p_id" >= CAST((9) AS BIGINT) THEN CAST((9) AS BIGINT) WHEN t0."p_id" <= CAST((0) AS BIGINT) THEN CAST((0) AS BIGINT) ELSE t0."p_id" END) * 16) + CAST((hash(t0."p_id", t0."p_x", t0."p_active") >> 60) AS BIGINT)) AS "value" FROM (<0>) AS t0) AS t1 WHERE t1."value" IS NOT NULL GROUP BY t1."value"
