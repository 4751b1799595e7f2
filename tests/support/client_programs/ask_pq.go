// What database/sql with lib/pq can do.
package main

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"reflect"
	"strings"
	"time"

	"github.com/lib/pq"
)

func same(found, wanted any) {
	if !reflect.DeepEqual(found, wanted) {
		panic(fmt.Sprintf("%v for %v", found, wanted))
	}
}
func must[T any](value T, fault error) T {
	if fault != nil {
		panic(fault)
	}
	return value
}
func check(fault error) {
	if fault != nil {
		panic(fault)
	}
}
func dsn(port, password, tls string) string {
	return fmt.Sprintf("host=localhost port=%s user=ada password='%s' dbname=study sslmode=%s", port, password, tls)
}
func health(db interface {
	Query(string, ...any) (*sql.Rows, error)
}, text string) (found []string) {
	rows := must(db.Query(text))
	defer rows.Close()
	for rows.Next() {
		var name string
		var n int64
		check(rows.Scan(&name, &n))
		found = append(found, name)
	}
	check(rows.Err())
	return found
}

func main() {
	scripted, real, password, counted, ends := os.Args[1], os.Args[2], os.Args[3], os.Args[4], os.Args[5]
	wrong := must(sql.Open("postgres", dsn(scripted, "wrong", "disable")))
	same(string(wrong.Ping().(*pq.Error).Code), "28P01")
	db := must(sql.Open("postgres", dsn(scripted, password, "require")))
	rows := must(db.Query("ALL TYPES"))
	rows.Next()
	var i int64
	var h, t string
	var d float64
	var b bool
	var day, at time.Time
	check(rows.Scan(&i, &h, &d, &b, &t, &day, &at))
	same([]any{i, h, d, b, t, day.Format("2006-01-02"), at.Format("2006-01-02 15:04:05.999999")},
		[]any{int64(42), "1" + strings.Repeat("0", 30), 1.5, true, "ä\"'", "2024-02-29", "2024-02-29 12:30:01.00025"})
	rows.Next()
	var none sql.NullInt64
	check(rows.Scan(&none, new(any), new(any), new(any), new(any), new(any), new(any)))
	same(none.Valid, false)
	rows.Close()
	fmt.Println("password values")
	made := must(db.Prepare("ECHO $1::BIGINT $2::VARCHAR $3::BOOLEAN $4::DOUBLE"))
	for number := int64(3); number < 5; number++ {
		check(made.QueryRow(number, "ä", true, 2.5).Scan(&i, &t, &b, &d))
		same([]any{i, t, b, d}, []any{number, "ä", true, 2.5})
	}
	fmt.Println("prepared parameters")
	fault := must(fault(db.Query("BOGUS")))
	same([]string{string(fault.Code), fault.Position, fault.Hint}, []string{"42601", "1", "a hint"})
	fmt.Println("place")
	soon, stop := context.WithTimeout(context.Background(), 500*time.Millisecond)
	defer stop()
	begun := time.Now()
	if _, fault := db.QueryContext(soon, "SLEEP 20"); fault == nil || time.Since(begun) > 10*time.Second {
		panic("not cancelled")
	}
	fmt.Println("cancel")
	tx := must(db.Begin())
	if _, fault := tx.Query("FAIL"); fault == nil {
		panic("not failed")
	}
	check(tx.Rollback())
	check(db.QueryRow("ROWS 1").Scan(&i))
	fmt.Println("transactions")

	heard := []string{}
	base := must(pq.NewConnector(dsn(real, password, "disable")))
	db = sql.OpenDB(pq.ConnectorWithNoticeHandler(base, func(notice *pq.Error) { heard = append(heard, notice.Message) }))
	db.SetMaxOpenConns(1)
	same(health(db, counted), []string{"excellent", "fair", "good", "poor"})
	same(strings.HasPrefix(heard[0], "cost"), true)
	fmt.Println("notices")
	db = must(sql.Open("postgres", dsn(real, password, "disable")))
	db.SetMaxIdleConns(10)
	held := []*sql.Conn{}
	for range [10]int{} {
		held = append(held, must(db.Conn(context.Background())))
	}
	few, found := make(chan bool, 4), make(chan []string)
	for _, each := range held {
		go func(con *sql.Conn) {
			few <- true
			rows := must(con.QueryContext(context.Background(), counted))
			names := []string{}
			for rows.Next() {
				var name string
				check(rows.Scan(&name, new(int64)))
				names = append(names, name)
			}
			<-few
			found <- names
		}(each)
	}
	for range held {
		same(<-found, []string{"excellent", "fair", "good", "poor"})
	}
	for _, each := range held {
		each.Close()
	}
	fmt.Println("pools")
	rows = must(db.Query(ends))
	same(must(rows.Columns()), []string{"n", "n_low", "n_high"})
	rows.Close()
	fmt.Println("ends")
	tx = must(db.Begin())
	must(tx.Exec("DECLARE some CURSOR FOR " + counted))
	same(health(tx, "FETCH 3 FROM some"), []string{"excellent", "fair", "good"})
	check(tx.Commit())
	fmt.Println("cursors")
	check(db.QueryRow("SELECT COUNT(*) AS n FROM people WHERE health = ANY($1)", pq.Array([]string{"good", "fair"})).Scan(&i))
	check(db.QueryRow("SELECT COUNT(*) AS n FROM people WHERE site IN ($1, $2)", 1, 2).Scan(&i))
	fmt.Println("arrays")
	check(db.QueryRow("SELECT table_name FROM information_schema.tables WHERE table_schema = $1 AND table_name = $2", "public", "people").Scan(&t))
	same(t, "people")
	fmt.Println("tables")
}

func fault(_ *sql.Rows, fault error) (*pq.Error, error) {
	return fault.(*pq.Error), nil
}
