# What Tcl's own interface to databases can do with PostgreSQL.
package require tdbc::postgres
lassign $argv scripted real password counted ends
proc to {port password} { tdbc::postgres::connection new -host localhost -port $port -user ada -password $password -database study }
proc same {found wanted} { if {$found ne $wanted} { error "$found for $wanted" } }
same [catch {to $scripted wrong} said] 1
same [string match "*password authentication failed*" $said] 1
set con [to $scripted $password]
puts "password"
same [$con allrows -as lists "ROWS 3"] {0 1 2}
same [dict get [lindex [$con allrows "ALL TYPES"] 0] at] "2024-02-29 12:30:01.00025"
puts "values"
set made [$con prepare "ECHO :i::BIGINT"]
foreach i {3 4} { same [$made allrows -as lists [dict create i $i]] $i }
puts "parameters prepared"
same [catch {$con transaction { $con allrows FAIL }}] 1
$con transaction { same [$con allrows -as lists "ROWS 1"] 0 }
puts "transactions"
set pool {}
for {set i 0} {$i < 10} {incr i} { lappend pool [to $real $password] }
foreach each $pool { same [lmap row [$each allrows $counted] {dict get $row health}] {excellent fair good poor} }
puts "pools"
set con [lindex $pool 0]
same [[[$con prepare $ends] execute] columns] {n n_low n_high}
puts "ends"
$con transaction { $con allrows "DECLARE some CURSOR FOR $counted"; same [llength [$con allrows "FETCH 3 FROM some"]] 3 }
puts "cursors"
$con allrows "SELECT COUNT(*) AS n FROM people WHERE health = ANY(:h)" {h "{good,fair}"}
$con allrows "SELECT COUNT(*) AS n FROM people WHERE site IN (:a, :b)" {a 1 b 2}
puts "arrays"
same [dict exists [$con tables] people] 1
# Its question about columns is `SELECT * FROM people LIMIT 0`, which is not answered.
