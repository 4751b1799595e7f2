# What Pgtcl can do.
package require Pgtcl
lassign $argv scripted real password counted ends
proc to {port password {more ""}} { pg_connect -conninfo "host=localhost port=$port user=ada password='$password' dbname=study $more" }
proc same {found wanted} { if {$found ne $wanted} { error "$found for $wanted" } }
proc rows {con text args} {
    set answer [pg_exec $con $text {*}$args]
    if {[pg_result $answer -status] ne "PGRES_TUPLES_OK"} { error [pg_result $answer -error] }
    set found [pg_result $answer -llist]; pg_result $answer -clear; return $found
}
same [catch {to $scripted wrong} said] 1
same [string match "*password authentication failed*" $said] 1
set con [to $scripted $password "sslmode=require channel_binding=require"]
puts "password binding"
same [lindex [rows $con "ALL TYPES"] 0] [list 42 1[string repeat 0 30] 1.5 t ä\"' 2024-02-29 "2024-02-29 12:30:01.00025"]
puts "values"
same [rows $con {ECHO $1::BIGINT $2::VARCHAR} 3 ä] {{3 ä}}
puts "parameters"
pg_result [pg_exec $con {ECHO $1::BIGINT}] -clear
set answer [pg_exec $con BOGUS]
same [pg_result $answer -error sqlstate][pg_result $answer -error position] 426011
puts "place"
pg_sendquery $con "SLEEP 20"; after 500; pg_cancelrequest $con
same [pg_result [pg_getresult $con] -error sqlstate] 57014
while {[pg_getresult $con] ne ""} {}
puts "cancel"
pg_exec $con BEGIN; catch {rows $con FAIL}; pg_exec $con ROLLBACK; same [rows $con "ROWS 1"] 0
puts "transactions"
set pool {}
for {set i 0} {$i < 10} {incr i} { lappend pool [to $real $password] }
foreach each $pool { set found {}; pg_select $each $counted row { lappend found $row(health) }; same $found {excellent fair good poor} }
puts "pools"
set con [lindex $pool 0]
set answer [pg_exec $con $ends]; same [pg_result $answer -attributes] {n n_low n_high}
puts "ends"
pg_exec $con BEGIN; pg_exec $con "DECLARE some CURSOR FOR $counted"; same [llength [rows $con "FETCH 3 FROM some"]] 3; pg_exec $con COMMIT
puts "cursors"
rows $con {SELECT COUNT(*) AS n FROM people WHERE health = ANY($1)} "{good,fair}"
rows $con {SELECT COUNT(*) AS n FROM people WHERE site IN ($1, $2)} 1 2
puts "arrays"
same [rows $con {SELECT tablename FROM pg_tables WHERE schemaname = $1 AND tablename = $2} public people] people
puts "tables"
