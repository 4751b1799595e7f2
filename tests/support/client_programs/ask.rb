require "pg"
scripted, real, password, counted, ends = ARGV
to = lambda { |port, given, more = {}| PG.connect({ host: "localhost", port: port, user: "ada", password: given, dbname: "study" }.merge(more)) }
def same(found, wanted) = found == wanted || raise("#{found.inspect} for #{wanted.inspect}")
def refused
  yield
  raise "not refused"
rescue PG::Error => fault
  fault
end
same(refused { to.(scripted, "wrong") }.message.include?("password authentication failed"), true)
con = to.(scripted, password, sslmode: "require", channel_binding: "require")
puts "password binding"
same(con.exec("ALL TYPES").values, [["42", "1" + "0" * 30, "1.5", "t", "ä\"'", "2024-02-29", "2024-02-29 12:30:01.00025"], [nil] * 7])
puts "values"
same(con.exec_params("ECHO $1::BIGINT $2::VARCHAR", [3, "ä"]).values, [["3", "ä"]])
puts "parameters"
same(con.exec_params("ECHO $1::BIGINT", [3], 1).getvalue(0, 0), [3].pack("q>"))
puts "binary"
con.prepare("made", "ECHO $1::BIGINT")
same([con.describe_prepared("made").fname(0), con.describe_prepared("made").paramtype(0)], ["c1", 20])
[4, 5].each { |i| same(con.exec_prepared("made", [i]).getvalue(0, 0), i.to_s) }
puts "columns prepared"
fault = refused { con.exec("BOGUS") }
same([fault.class, fault.result.error_field(PG::PG_DIAG_STATEMENT_POSITION)], [PG::SyntaxError, "1"])
puts "place"
con.send_query("SLEEP 20"); sleep 0.3; con.cancel
same(refused { con.get_last_result }.class, PG::QueryCanceled)
puts "cancel"
refused { con.transaction { con.exec("FAIL") } }
same(con.transaction { con.exec("ROWS 1").values }, [["0"]])
puts "transactions"
con = to.(real, password); heard = []; con.set_notice_processor { |told| heard << told }
rows = con.exec(counted).values
same([rows[0][0], heard[0].start_with?("NOTICE:  cost")], ["excellent", true])
puts "notices"
same(con.exec(ends).fields, ["n", "n_low", "n_high"])
puts "ends"
copied = []; con.copy_data("COPY (#{counted}) TO STDOUT CSV") { while row = con.get_copy_data do copied << row.chomp.split(",") end }
same(copied, rows)
puts "copied"
same(con.exec("SELECT tablename FROM pg_tables WHERE schemaname = 'public'").column_values(0).include?("people"), true)
puts "tables"
pool = Array.new(10) { to.(real, password) }
pool.each_slice(4) { |some| some.each { |each| each.send_query(counted) }; some.each { |each| same(each.get_last_result.values, rows) } }
puts "pools"
same(con.transaction { con.exec("DECLARE some CURSOR FOR #{counted}"); con.exec("FETCH 3 FROM some").values }, rows.first(3))
puts "cursors"
con.exec_params("SELECT COUNT(*) AS n FROM people WHERE health = ANY($1)", [PG::TextEncoder::Array.new.encode(["good", "fair"])])
con.exec_params("SELECT COUNT(*) AS n FROM people WHERE site IN ($1, $2)", [1, 2])
puts "arrays"
