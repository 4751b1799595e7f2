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

-- Public tables are free.
SELECT COUNT(*) AS plans, MAX(coinsurance) AS highest FROM plans
