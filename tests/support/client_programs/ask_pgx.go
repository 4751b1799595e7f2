// What pgx can do, and its pool.
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"reflect"
	"strings"
	"time"

	"github.com/jackc/pgconn"
	"github.com/jackc/pgx/v4"
	"github.com/jackc/pgx/v4/pgxpool"
)

var ctx = context.Background()

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
func health(rows pgx.Rows, fault error) (found []string) {
	check(fault)
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
func refused(rows pgx.Rows, fault error) *pgconn.PgError {
	if fault == nil {
		rows.Close()
		fault = rows.Err()
	}
	var found *pgconn.PgError
	if !errors.As(fault, &found) {
		panic(fault)
	}
	return found
}

func main() {
	scripted, real, password, counted, ends := os.Args[1], os.Args[2], os.Args[3], os.Args[4], os.Args[5]
	_, fault := pgx.Connect(ctx, dsn(scripted, "wrong", "disable"))
	var denied *pgconn.PgError
	same(errors.As(fault, &denied) && denied.Code == "28P01", true)
	con := must(pgx.Connect(ctx, dsn(scripted, password, "require")))
	rows := must(con.Query(ctx, "ALL TYPES"))
	rows.Next()
	found := must(rows.Values())
	same([]any{found[0], found[2], found[3], found[4], found[5], found[6]}, []any{int64(42), 1.5, true, "ä\"'",
		time.Date(2024, 2, 29, 0, 0, 0, 0, time.UTC), time.Date(2024, 2, 29, 12, 30, 1, 250000, time.UTC)})
	rows.Next()
	same(must(rows.Values())[0], nil)
	rows.Close()
	fmt.Println("password values binary") // it asks for nothing else
	made := must(con.Prepare(ctx, "made", "ECHO $1::BIGINT $2::VARCHAR $3::BOOLEAN $4::DOUBLE $5::DATE"))
	same([]any{string(made.Fields[0].Name), made.ParamOIDs[0]}, []any{"c1", uint32(20)})
	fmt.Println("columns")
	var i int64
	var t string
	var b bool
	var d float64
	var day time.Time
	for number := int64(3); number < 5; number++ {
		check(con.QueryRow(ctx, "made", number, "ä", true, 2.5, time.Date(2020, 1, 2, 0, 0, 0, 0, time.UTC)).Scan(&i, &t, &b, &d, &day))
		same([]any{i, t, b, d, day.Format("2006-01-02")}, []any{number, "ä", true, 2.5, "2020-01-02"})
	}
	fmt.Println("prepared parameters")
	wrong := refused(con.Query(ctx, "BOGUS"))
	same([]any{wrong.Code, wrong.Position, wrong.Hint}, []any{"42601", int32(1), "a hint"})
	fmt.Println("place")
	tx := must(con.Begin(ctx))
	refused(tx.Query(ctx, "FAIL"))
	check(tx.Rollback(ctx))
	check(con.QueryRow(ctx, "ROWS 1").Scan(&i))
	fmt.Println("transactions")
	time.AfterFunc(500*time.Millisecond, func() { check(con.PgConn().CancelRequest(ctx)) })
	same(refused(con.Query(ctx, "SLEEP 20")).Code, "57014")
	fmt.Println("cancel")

	heard := []string{}
	how := must(pgx.ParseConfig(dsn(real, password, "disable")))
	how.OnNotice = func(_ *pgconn.PgConn, notice *pgconn.Notice) { heard = append(heard, notice.Message) }
	con = must(pgx.ConnectConfig(ctx, how))
	same(health(con.Query(ctx, counted)), []string{"excellent", "fair", "good", "poor"})
	same(strings.HasPrefix(heard[0], "cost"), true)
	fmt.Println("notices")
	rows = must(con.Query(ctx, ends))
	same(string(rows.FieldDescriptions()[1].Name), "n_low")
	rows.Close()
	fmt.Println("ends")
	copied := bytes.Buffer{}
	must(con.PgConn().CopyTo(ctx, &copied, "COPY ("+counted+") TO STDOUT CSV HEADER"))
	same(strings.HasPrefix(copied.String(), "health,n\nexcellent,"), true)
	fmt.Println("copied")
	check(con.QueryRow(ctx, "SELECT COUNT(*) AS n FROM people WHERE health = ANY($1)", []string{"good", "fair"}).Scan(&i))
	check(con.QueryRow(ctx, "SELECT COUNT(*) AS n FROM people WHERE site IN ($1, $2)", 1, 2).Scan(&i))
	fmt.Println("arrays")
	tx = must(con.Begin(ctx))
	must(tx.Exec(ctx, "DECLARE some CURSOR FOR "+counted))
	same(health(tx.Query(ctx, "FETCH 3 FROM some")), []string{"excellent", "fair", "good"})
	check(tx.Commit(ctx))
	fmt.Println("cursors")
	check(con.QueryRow(ctx, "SELECT table_name FROM information_schema.tables WHERE table_schema = $1 AND table_name = $2", "public", "people").Scan(&t))
	same(t, "people")
	fmt.Println("tables")
	settings := must(pgxpool.ParseConfig(dsn(real, password, "disable")))
	settings.MaxConns = 10
	pool := must(pgxpool.ConnectConfig(ctx, settings))
	held, few, answers := []*pgxpool.Conn{}, make(chan bool, 4), make(chan []string)
	for range [10]int{} {
		held = append(held, must(pool.Acquire(ctx)))
	}
	for _, each := range held {
		go func(con *pgxpool.Conn) {
			few <- true
			names := health(con.Query(ctx, counted))
			<-few
			answers <- names
		}(each)
	}
	for range held {
		same(<-answers, []string{"excellent", "fair", "good", "poor"})
	}
	fmt.Println("pools")
}
