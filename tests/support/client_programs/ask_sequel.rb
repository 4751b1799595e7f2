require "sequel"
_, real, password, counted, ends = ARGV
to = ->(given) { Sequel.connect(adapter: "postgres", host: "localhost", port: real, user: "ada", password: given, database: "study", max_connections: 10) }
def same(found, wanted) = found == wanted || raise("#{found.inspect} for #{wanted.inspect}")
begin
  to.("wrong")
  raise "let in"
rescue Sequel::DatabaseConnectionError => fault
  same(fault.message.include?("password authentication failed"), true)
end
db = to.(password)
puts "password"
row = db["SELECT 42 AS i, 1.5::DOUBLE AS d, true AS b, DATE '2024-02-29' AS day, NULL::BIGINT AS none"].first
raise unless row == { i: 42, d: 1.5, b: true, day: Date.new(2024, 2, 29), none: nil }
puts "values"
by_health = db[:people].group_and_count(:health).order(:health)
same(by_health.map(:health), %w[excellent fair good poor])
threads = Array.new(10) { Thread.new { db.synchronize { |con| sleep 0.3; con } } }
same(threads.map(&:value).uniq.size, 10)
same(Array.new(3) { Thread.new { by_health.map(:health) } }.map(&:value).uniq.size, 1)
puts "pools"
same(db[ends].columns, %i[n n_low n_high])
puts "ends"
same(by_health.use_cursor(rows_per_fetch: 3).map(:health), %w[excellent fair good poor])
puts "cursors"
db[:people].where(site: [1, 2]).count
puts "arrays"
db.transaction { by_health.all }
puts "transactions"
same([db.tables.include?(:people), db.schema(:people).to_h[:health][:type]], [true, :string])
same(db.primary_key(:people), "person_id")
puts "tables"
