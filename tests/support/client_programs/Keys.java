import java.sql.Connection;
import java.sql.DatabaseMetaData;
import java.sql.DriverManager;
import java.sql.ResultSet;
import java.sql.Statement;

/** What JDBC tells of keys and keywords, and rows that are fetched in portions. */
public class Keys {
    public static void main(String[] given) throws Exception {
        try (Connection con = DriverManager.getConnection(given[0], given[1], given[2])) {
            DatabaseMetaData about = con.getMetaData();
            System.out.println("imported");
            for (ResultSet rows = about.getImportedKeys(null, "public", "visits"); rows.next();)
                System.out.println(rows.getString("PKTABLE_NAME") + "." + rows.getString("PKCOLUMN_NAME"));
            System.out.println("exported");
            for (ResultSet rows = about.getExportedKeys(null, "public", "people"); rows.next();)
                System.out.println(rows.getString("FKTABLE_NAME"));
            System.out.println("cross");
            for (ResultSet rows = about.getCrossReference(null, "public", "people", null, "public", "visits"); rows.next();)
                System.out.println(rows.getString("FKTABLE_NAME"));
            System.out.println("index");
            for (ResultSet rows = about.getIndexInfo(null, "public", "people", false, true); rows.next();)
                System.out.println(rows.getString("INDEX_NAME"));
            System.out.println(about.getSQLKeywords().contains("analyse") ? "keywords" : about.getSQLKeywords());
            con.setAutoCommit(false);
            int number = 0;
            try (Statement statement = con.createStatement()) {
                statement.setFetchSize(3);
                for (ResultSet rows = statement.executeQuery("SELECT clinic FROM clinics"); rows.next();)
                    number++;
            }
            System.out.println("portions " + number);
        }
    }
}
