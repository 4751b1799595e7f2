import java.sql.*;
public class Ask {
  static Connection to(String port, String password, String binary, String tls) throws Exception {
    java.util.Properties how = new java.util.Properties();
    how.put("user", "ada"); how.put("password", password); how.put("assumeMinServerVersion", "15");
    how.put("binaryTransfer", binary); how.put("prepareThreshold", "2"); how.put("sslmode", tls);
    return DriverManager.getConnection("jdbc:postgresql://localhost:" + port + "/study", how);
  }
  static void same(Object found, Object wanted) { if (!String.valueOf(found).equals(String.valueOf(wanted))) throw new RuntimeException(found + " for " + wanted); }
  public static void main(String[] given) throws Exception {
    try { to(given[0], "wrong", "true", "disable"); throw new RuntimeException("let in"); } catch (SQLException fault) { same(fault.getSQLState(), "28P01"); }
    for (String binary : new String[] {"true", "false"}) try (Connection con = to(given[0], given[2], binary, "require")) {
      if (binary.equals("true")) System.out.println("password");
      for (int i = 0; i < 5; i++)
        try (PreparedStatement made = con.prepareStatement("ECHO ?::BIGINT ?::DOUBLE ?::DATE ?::VARCHAR ?::BOOLEAN ?::HUGEINT")) {
          made.setLong(1, 7); made.setDouble(2, 2.5); made.setDate(3, Date.valueOf("2020-01-02")); made.setString(4, "x"); made.setBoolean(5, true);
          made.setBigDecimal(6, new java.math.BigDecimal("10000000000000000000000000"));
          same(made.getMetaData().getColumnCount(), 6);
          ResultSet rows = made.executeQuery(); rows.next();
          same(rows.getLong(1) + " " + rows.getDouble(2) + " " + rows.getDate(3) + " " + rows.getString(4) + " " + rows.getBoolean(5) + " " + rows.getBigDecimal(6),
               "7 2.5 2020-01-02 x true 10000000000000000000000000");
        }
      if (binary.equals("true")) System.out.println("parameters columns prepared binary"); else {
        try (Statement made = con.createStatement()) {
          ResultSet rows = made.executeQuery("ALL TYPES"); rows.next(); same(rows.getBigDecimal(2), "1000000000000000000000000000000");
          same(rows.getTimestamp(7), "2024-02-29 12:30:01.00025"); rows.next(); same(rows.getObject(1), null);
        }
        System.out.println("values");
      }
      con.setAutoCommit(false);
      try (Statement made = con.createStatement()) {
        made.setFetchSize(50);
        ResultSet rows = made.executeQuery("ROWS 120"); int n = 0; while (rows.next()) n++;
        same(n, 120); if (binary.equals("true")) System.out.println("portions");
        try { made.executeQuery("FAIL"); } catch (SQLException fault) { same(fault.getSQLState(), "42883"); }
        con.rollback(); if (binary.equals("true")) System.out.println("transactions");
        try { made.executeQuery("BOGUS"); } catch (org.postgresql.util.PSQLException fault) {
          same(fault.getServerErrorMessage().getHint() + fault.getServerErrorMessage().getPosition(), "a hint1"); }
        con.rollback(); if (binary.equals("true")) { System.out.println("place");
          made.setQueryTimeout(1);
          try { made.executeQuery("SLEEP 20"); throw new RuntimeException("slept"); } catch (SQLException fault) { same(fault.getSQLState(), "57014"); }
          System.out.println("cancel"); }
        con.rollback();
      }
    }
    try (Connection con = to(given[1], given[2], "true", "disable"); Statement made = con.createStatement()) {
      ResultSet rows = made.executeQuery(given[3]); rows.next(); same(rows.getString(1), "excellent");
      if (!made.getWarnings().getMessage().startsWith("cost")) throw new RuntimeException("no notice");
      System.out.println("notices");
      same(made.executeQuery(given[4]).getMetaData().getColumnName(2), "n_low"); System.out.println("ends");
      java.io.StringWriter copied = new java.io.StringWriter();
      con.unwrap(org.postgresql.PGConnection.class).getCopyAPI().copyOut("COPY (" + given[3] + ") TO STDOUT CSV HEADER", copied);
      if (!copied.toString().startsWith("health,n\nexcellent,")) throw new RuntimeException(copied.toString()); System.out.println("copied");
      String tables = ""; rows = con.getMetaData().getTables(null, "public", "peo%", new String[] {"TABLE"});
      while (rows.next()) tables += rows.getString("TABLE_SCHEM") + "." + rows.getString("TABLE_NAME");
      same(tables, "public.people"); rows = con.getMetaData().getPrimaryKeys(null, "public", "people"); rows.next(); same(rows.getString("COLUMN_NAME"), "person_id");
      if (!con.getMetaData().getColumns(null, "public", "people", null).next()) throw new RuntimeException("no column");
      try (PreparedStatement exact = con.prepareStatement("SELECT COUNT(*) FROM public.people WHERE site = ?")) {
        exact.setBigDecimal(1, new java.math.BigDecimal("3")); if (!exact.executeQuery().next()) throw new RuntimeException("no row"); }
      System.out.println("tables");
      java.util.List<Connection> pool = new java.util.ArrayList<>();
      for (int i = 0; i < 10; i++) pool.add(to(given[1], given[2], "true", "disable"));
      for (Connection each : pool) { ResultSet first = each.createStatement().executeQuery(given[3]); first.next(); same(first.getString(1), "excellent"); }
      for (Connection each : pool) each.close();
      System.out.println("pools");
      con.setAutoCommit(false); made.execute("DECLARE some CURSOR FOR " + given[3]); int n = 0; rows = made.executeQuery("FETCH 3 FROM some"); while (rows.next()) n++;
      same(n, 3); con.commit(); System.out.println("cursors");
      try (PreparedStatement list = con.prepareStatement("SELECT COUNT(*) AS n FROM people WHERE health = ANY(?)");
           PreparedStatement sites = con.prepareStatement("SELECT COUNT(*) AS n FROM people WHERE site IN (?, ?)")) {
        list.setArray(1, con.createArrayOf("text", new String[] {"good", "fair"})); list.executeQuery().next();
        sites.setLong(1, 1); sites.setLong(2, 2); sites.executeQuery().next(); }
      System.out.println("arrays");
    }
  }
}
