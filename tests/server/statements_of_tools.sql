-- # Superset: a big number | 1 rows
SELECT COUNT(*) AS count
FROM public.people
 LIMIT 10000

-- # Superset: bars by the largest | 3 rows
SELECT sex AS sex, COUNT(*) AS count
FROM public.people GROUP BY sex ORDER BY count DESC
 LIMIT 10000

-- # Superset: several metrics | 3 rows
SELECT sex AS sex, AVG(age) AS "AVG(age)", sum(age) AS "SUM(age)", COUNT(*) AS count
FROM public.people GROUP BY sex ORDER BY "SUM(age)" DESC
 LIMIT 10000

-- # Superset: filters of several kinds | 2 rows
SELECT sex AS sex, COUNT(*) AS count
FROM public.people
WHERE active = true AND age >= 10 AND active IS true AND age IN (20, 30, 40) AND (sex NOT IN ('x', 'O''Brien')) AND nickname IS NOT NULL AND ((age > 5 AND active)) GROUP BY sex
 LIMIT 10000

-- # Superset: a filter by ILIKE | 1 rows
SELECT COUNT(*) AS count
FROM public.people
WHERE sex ILIKE '%f%'
 LIMIT 10000

-- # Superset: HAVING | 0 rows
SELECT sex AS sex, COUNT(*) AS count
FROM public.people GROUP BY sex
HAVING ((COUNT(*) > 1000000)) ORDER BY count DESC
 LIMIT 5

-- # Superset: columns of its own | 2 rows
SELECT age > 50 AS "Old", SUM(age) / COUNT(*) AS "Mean Age"
FROM public.people GROUP BY age > 50
 LIMIT 10000

-- # Superset: the next page | 1 rows
SELECT sex AS sex, COUNT(*) AS count
FROM public.people GROUP BY sex ORDER BY count DESC
 LIMIT 10000 OFFSET 2

-- # Superset: a series by months, between two times | 4 rows
SELECT DATE_TRUNC('month', seen) AS seen, COUNT(*) AS count
FROM public.visits
WHERE seen >= TO_TIMESTAMP('2019-06-10 00:00:00.000000', 'YYYY-MM-DD HH24:MI:SS.US') AND seen < TO_TIMESTAMP('2019-10-01 00:00:00.000000', 'YYYY-MM-DD HH24:MI:SS.US') GROUP BY DATE_TRUNC('month', seen) ORDER BY count DESC
 LIMIT 10000

-- # Superset: a series by years, from a day on | 3 rows
SELECT DATE_TRUNC('year', born) AS born, COUNT(*) AS count
FROM public.people
WHERE born >= TO_DATE('2018-06-01', 'YYYY-MM-DD') GROUP BY DATE_TRUNC('year', born)
 LIMIT 10000

-- # Superset: a series by half an hour | an INTERVAL is allowed only after + or -
SELECT DATE_TRUNC('hour', seen) + INTERVAL '30 minutes' * FLOOR(EXTRACT(MINUTE FROM seen) / 30) AS seen, COUNT(*) AS count
FROM public.visits GROUP BY DATE_TRUNC('hour', seen) + INTERVAL '30 minutes' * FLOOR(EXTRACT(MINUTE FROM seen) / 30)
 LIMIT 10000

-- # Superset: values to filter by | 3 rows
SELECT sex AS sex
FROM public.people GROUP BY sex
 LIMIT 10000

-- # Superset: a dataset that is a query | 3 rows
SELECT sex AS sex, sum(n) AS "SUM(n)"
FROM (SELECT sex, active, COUNT(*) AS n FROM people GROUP BY sex, active
) AS virtual_table GROUP BY sex ORDER BY "SUM(n)" DESC
 LIMIT 10000

-- # Superset: samples | rows are never shown, only aggregates over them
SELECT person_id AS person_id, sex AS sex
FROM public.people
 LIMIT 10000

-- # Superset: a limit of series | LIMIT inside a subquery depends on the rows of all entities
SELECT p.sex AS sex, COUNT(*) AS count
FROM public.people AS p JOIN (SELECT active AS active__, COUNT(*) AS mme_inner__
FROM public.people GROUP BY active ORDER BY mme_inner__ DESC
 LIMIT 2) AS anon_1 ON p.active = anon_1.active__ GROUP BY p.sex
 LIMIT 10000

-- # Superset: the number of rows of a table | LIMIT inside a subquery depends on the rows of all entities
SELECT COUNT(*) AS rowcount
FROM (SELECT sex AS sex, COUNT(*) AS count
FROM public.people GROUP BY sex
 LIMIT 10000) AS rowcount_qry

-- # Superset: SQL Lab, the cost of a query | EXPLAIN must be followed by PRIVACY
EXPLAIN SELECT COUNT(*) FROM people

-- # dbt: show --inline | 3 rows
/* {"app": "dbt", "dbt_version": "1.12.0", "profile_name": "study", "target_name": "dev", "node_id": "sql_operation.study.inline_query"} */


  select sex, count(*) as n from "study"."public"."people" group by sex

  limit 3

-- # dbt: show --select, over an ephemeral model | 3 rows
/* {"app": "dbt", "dbt_version": "1.12.0", "profile_name": "study", "target_name": "dev", "node_id": "model.study.by_sex"} */

  with __dbt__cte__eph as (

select sex, age from "study"."public"."people" where age < 40
) select sex, avg(age) as mean from __dbt__cte__eph group by sex

  limit 5

-- # dbt: run, a view | only queries are answered
/* {"app": "dbt", "dbt_version": "1.12.0", "profile_name": "study", "target_name": "dev", "node_id": "model.study.by_sex"} */

  create view "study"."public"."by_sex__dbt_tmp"


  as (
    select sex, count(*) as n from "study"."public"."people" group by sex
  );

-- # dbt: run, a table | only queries are answered
/* {"app": "dbt", "dbt_version": "1.12.0", "profile_name": "study", "target_name": "dev", "node_id": "model.study.tab"} */

  create  table "study"."public"."tab__dbt_tmp"


    as

  (
select sex, count(*) as n from "study"."public"."people" group by sex
  );

-- # dbt: test, not_null, which counts with noise | 1 rows
/* {"app": "dbt", "dbt_version": "1.12.0", "profile_name": "study", "target_name": "dev", "node_id": "test.study.source_not_null"} */
    select
      count(*) as failures,
      count(*) != 0 as should_warn,
      count(*) != 0 as should_error
    from (

select sex
from "study"."public"."people"
where sex is null

    ) dbt_internal_test
