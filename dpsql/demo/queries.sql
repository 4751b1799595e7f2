-- Ordinary SQL over the RAND Health Insurance Experiment. Each statement costs what the policy says (per_statement).

-- How much care did people use under each plan? Every plan is shown, and every number says how sure it is.
SELECT p.coinsurance, COUNT(*) AS person_years, AVG(y.medical_dollars) AS dollars, AVG(y.md_visits) AS visits
FROM person_years y JOIN people p USING (person_id)
GROUP BY p.coinsurance ORDER BY p.coinsurance;

-- Medians are chosen privately; these say what a typical year costs, whatever the few very ill people spend.
SELECT MEDIAN(outpatient_dollars) AS half, QUANTILE_CONT(outpatient_dollars, 0.9) AS nine_in_ten
FROM person_years WHERE outpatient_dollars > 0;

-- First an exact total for each person, then statistics over people.
SELECT female, COUNT(*) AS people, AVG(visits) AS visits_in_all
FROM (SELECT p.person_id, p.female, SUM(y.md_visits) AS visits
      FROM people p JOIN person_years y USING (person_id) GROUP BY p.person_id, p.female) AS t
GROUP BY female;

-- A table that grows: each year is charged by itself, and once it has ended, next year adds a row and leaves these as they are.
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 0.1)
    date_trunc('year', filed_on) AS year, COUNT(*) AS claims, SUM(md_visits) AS visits
FROM yearly_claims WHERE filed_on < DATE '2026-01-01' GROUP BY year ORDER BY year;

-- Public tables are free.
SELECT COUNT(*) AS plans, MAX(coinsurance) AS highest FROM plans
