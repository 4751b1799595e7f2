-- The same, where a household is protected.

SELECT COUNT(*) FROM households;
SELECT region, COUNT(*) FROM households GROUP BY region;
SELECT COUNT(*), AVG(age), SUM(income) FROM people WHERE household_id IS NOT NULL;
SELECT region, COUNT(*), AVG(age) FROM people p JOIN households h ON p.household_id = h.household_id GROUP BY region;
SELECT region, SUM(cost) FROM households h JOIN people p USING (household_id) JOIN visits v USING (person_id) GROUP BY
    region;
SELECT AVG(n) FROM (SELECT household_id, COUNT(*) AS n FROM people WHERE household_id IS NOT NULL GROUP BY household_id)
    t;
SELECT COUNT(*) FROM households h WHERE EXISTS (SELECT 1 FROM people p WHERE p.household_id = h.household_id AND p.age <
    18);
SELECT COUNT(*) FROM people a JOIN people b ON a.household_id = b.household_id AND a.person_id < b.person_id;
SELECT COUNT(DISTINCT household_id) FROM people;
