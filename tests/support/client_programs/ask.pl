use strict; use warnings; use DBI; use DBD::Pg qw(:async);
my ($scripted, $real, $password, $counted, $ends) = @ARGV;
sub to { my ($port, $given, $more) = @_; DBI->connect("dbi:Pg:host=localhost;port=$port;dbname=study$more", "ada", $given, {RaiseError => 1, PrintError => 0, AutoCommit => 1}) }
sub same { my ($found, $wanted) = @_; $found eq $wanted or die "$found for $wanted" }
eval { to($scripted, "wrong", "") }; $@ =~ /password authentication failed/ or die $@;
my $con = to($scripted, $password, ";sslmode=require;channel_binding=require");
print "password binding\n";
my $rows = $con->selectall_arrayref("ALL TYPES");
same(join("|", @{$rows->[0]}[0..3, 5, 6]), "42|1" . "0" x 30 . "|1.5|1|2024-02-29|2024-02-29 12:30:01.00025"); defined $rows->[1][0] and die;
print "values\n";
my $made = $con->prepare('SELECT ECHO $1::BIGINT'); for my $i (3, 4, 5) { $made->execute($i); same($made->fetchrow_array, $i) }
print "parameters prepared\n";
eval { $con->do("BOGUS") }; same($con->state . $con->pg_error_field("pg_diag_statement_position"), "426011");
print "place\n";
$con->do("SLEEP 20", {pg_async => PG_ASYNC}); select(undef, undef, undef, 0.3); $con->pg_cancel; same($con->selectrow_array("ROWS 1"), 0);
print "cancel\n";
$con->begin_work; eval { $con->do("FAIL") }; $con->rollback; $con->begin_work; same($con->selectrow_array("ROWS 1"), 0); $con->commit;
print "transactions\n"; $con->disconnect;
$con = to($real, $password, ""); my @heard; local $SIG{__WARN__} = sub { push @heard, @_ };
$rows = $con->selectall_arrayref($counted); same($rows->[0][0], "excellent"); $heard[0] =~ /cost/ or die;
print "notices\n";
$made = $con->prepare($ends); $made->execute; same(join("|", @{$made->{NAME}}), "n|n_low|n_high");
print "ends\n";
$con->do("COPY ($counted) TO STDOUT CSV"); my ($copied, $line) = ("", ""); while ($con->pg_getcopydata(\$line) >= 0) { $copied .= $line }
same($copied, join("", map { join(",", @$_) . "\n" } @$rows));
print "copied\n";
same(join("|", map { $_->[2] } grep { $_->[2] eq "people" } @{$con->table_info(undef, "public", "%", "TABLE")->fetchall_arrayref}), "people");
grep { $_->[3] eq "health" } @{$con->column_info(undef, "public", "people", "%")->fetchall_arrayref} or die;
same(join("|", $con->primary_key(undef, "public", "people")), "person_id");
print "tables\n";
my @pool = map { to($real, $password, "") } 1 .. 10; same($_->selectcol_arrayref($counted)->[3], "poor") for @pool;
print "pools\n";
$con->begin_work; $con->do("DECLARE some CURSOR FOR $counted"); same(scalar(@{$con->selectall_arrayref("FETCH 3 FROM some")}), 3); $con->commit;
print "cursors\n";
$con->selectrow_array("SELECT COUNT(*) AS n FROM people WHERE health = ANY(?)", undef, ["good", "fair"]);
$con->selectrow_array("SELECT COUNT(*) AS n FROM people WHERE site IN (?, ?)", undef, 1, 2);
print "arrays\n";
