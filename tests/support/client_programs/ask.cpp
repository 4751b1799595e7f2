// What libpqxx can do.
#include <iostream>
#include <memory>
#include <pqxx/pqxx>
#include <stdexcept>
#include <string>
#include <vector>

template <class A, class B> void same(A const &found, B const &wanted) {
  if (!(found == wanted)) { std::cerr << found << " for " << wanted << "\n"; std::exit(1); }
}

int main(int, char *given[]) {
  std::string scripted = given[1], real = given[2], password = given[3], counted = given[4], ends = given[5];
  auto to = [](std::string port, std::string with, std::string more = "") {
    return std::make_unique<pqxx::connection>("host=localhost port=" + port + " user=ada password='" + with + "' dbname=study " + more);
  };
  try { to(scripted, "wrong"); return 1; } catch (pqxx::broken_connection const &fault) {
    same(std::string(fault.what()).find("password authentication failed") != std::string::npos, true); }
  auto con = to(scripted, password, "sslmode=require channel_binding=require");
  std::cout << "password binding\n";
  {
    pqxx::work asking(*con);
    auto rows = asking.exec("ALL TYPES");
    same(rows[0]["i"].as<long>(), 42); same(rows[0]["d"].as<double>(), 1.5); same(rows[0]["b"].as<bool>(), true);
    same(rows[0]["t"].as<std::string>(), "ä\"'"); same(rows[1]["i"].is_null(), true);
    std::cout << "values\n";
    same(asking.exec_params("ECHO $1::BIGINT $2::VARCHAR", 3, "ä")[0][1].as<std::string>(), "ä");
    con->prepare("made", "ECHO $1::BIGINT");
    for (long i : {3, 4}) same(asking.exec_prepared("made", i)[0][0].as<long>(), i);
    std::cout << "parameters prepared\n";
  }
  try { pqxx::work asking(*con); asking.exec("BOGUS"); return 1; } catch (pqxx::sql_error const &fault) {
    same(fault.sqlstate(), "42601"); same(std::string(fault.what()).find("LINE 1: BOGUS\n        ^") != std::string::npos, true); }
  std::cout << "place\n";
  try { pqxx::work asking(*con); asking.exec("FAIL"); return 1; } catch (pqxx::sql_error const &) {}
  { pqxx::work asking(*con); same(asking.exec("ROWS 1")[0][0].as<long>(), 0); asking.commit(); }
  std::cout << "transactions\n";
  std::vector<std::unique_ptr<pqxx::connection>> pool;
  for (int i = 0; i < 10; i++) pool.push_back(to(real, password));
  for (auto &each : pool) { pqxx::nontransaction asking(*each); same(asking.exec(counted)[3]["health"].as<std::string>(), "poor"); }
  std::cout << "pools\n";
  pqxx::work asking(*pool[0]);
  same(std::string(asking.exec(ends).column_name(1)), "n_low");
  std::cout << "ends\n";
  pqxx::stateless_cursor<pqxx::cursor_base::read_only, pqxx::cursor_base::owned> cursor(asking, counted, "rows", false);
  same(cursor.retrieve(1, 3)[1]["health"].as<std::string>(), "good"); same(cursor.size(), 4);
  std::cout << "cursors\n";
  asking.exec_params("SELECT COUNT(*) AS n FROM people WHERE health = ANY($1)", "{good,fair}");
  asking.exec_params("SELECT COUNT(*) AS n FROM people WHERE site IN ($1, $2)", 1, 2);
  std::cout << "arrays\n";
  same(asking.exec_params("SELECT tablename FROM pg_tables WHERE schemaname = $1 AND tablename = $2", "public", "people").size(), 1);
  std::cout << "tables\n";
}
