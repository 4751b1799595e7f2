// What tokio-postgres can do.
use std::{env, time::{Duration, SystemTime}};
use futures_util::{future::join_all, StreamExt, TryStreamExt};
use tokio_postgres::{AsyncMessage, Client, NoTls};

const HEALTH: [&str; 4] = ["excellent", "fair", "good", "poor"];

async fn to(port: &str, password: &str) -> Result<(Client, tokio::sync::mpsc::UnboundedReceiver<String>), tokio_postgres::Error> {
    let how = format!("host=localhost port={port} user=ada password='{password}' dbname=study");
    let (client, mut connection) = tokio_postgres::connect(&how, NoTls).await?;
    let (say, heard) = tokio::sync::mpsc::unbounded_channel();
    tokio::spawn(async move {
        let mut messages = futures_util::stream::poll_fn(move |context| connection.poll_message(context));
        while let Some(Ok(message)) = messages.next().await {
            if let AsyncMessage::Notice(notice) = message { let _ = say.send(notice.message().to_string()); }
        }
    });
    Ok((client, heard))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let given: Vec<String> = env::args().collect();
    let (scripted, real, password, counted, ends) = (&given[1], &given[2], &given[3], &given[4], &given[5]);
    assert_eq!(to(scripted, "wrong").await.err().unwrap().code().unwrap().code(), "28P01");
    let (mut con, _) = to(scripted, password).await?;
    println!("password");
    let row = con.query("SELECT ALL TYPES", &[]).await?;
    assert_eq!((row[0].get::<_, i64>("i"), row[0].get::<_, f64>("d"), row[0].get::<_, bool>("b"), row[0].get::<_, &str>("t")), (42, 1.5, true, "ä\"'"));
    assert!(row[0].get::<_, SystemTime>("at") > SystemTime::UNIX_EPOCH && row[1].get::<_, Option<i64>>("i").is_none());
    println!("values binary");
    let made = con.prepare("ECHO $1::BIGINT $2::VARCHAR").await?;
    assert_eq!((made.columns()[0].name(), made.params()[0].name()), ("c1", "int8"));
    for i in [3i64, 4] { assert_eq!(con.query_one(&made, &[&i, &"ä"]).await?.get::<_, i64>(0), i); }
    println!("columns prepared parameters");
    let fault = con.query("BOGUS", &[]).await.err().unwrap();
    let told = fault.as_db_error().unwrap();
    assert_eq!((told.code().code(), told.hint(), told.position()), ("42601", Some("a hint"), Some(&tokio_postgres::error::ErrorPosition::Original(1))));
    println!("place");
    let cancels = con.cancel_token();
    tokio::spawn(async move { tokio::time::sleep(Duration::from_millis(500)).await; cancels.cancel_query(NoTls).await.unwrap(); });
    assert_eq!(con.query("SLEEP 20", &[]).await.err().unwrap().code().unwrap().code(), "57014");
    println!("cancel");
    let tx = con.transaction().await?;
    assert!(tx.query("FAIL", &[]).await.is_err());
    tx.rollback().await?;
    let tx = con.transaction().await?;
    let made = tx.prepare("ROWS 120").await?;
    let portal = tx.bind(&made, &[]).await?;
    assert_eq!((tx.query_portal(&portal, 50).await?.len(), tx.query_portal(&portal, 100).await?.len()), (50, 70));
    tx.commit().await?;
    println!("transactions portions");

    let (mut con, mut heard) = to(real, password).await?;
    let rows = con.query(counted.as_str(), &[]).await?;
    assert_eq!(rows.iter().map(|row| row.get::<_, &str>("health")).collect::<Vec<_>>(), HEALTH);
    assert!(heard.recv().await.unwrap().starts_with("cost"));
    println!("notices");
    assert_eq!(con.prepare(ends).await?.columns().iter().map(|each| each.name()).collect::<Vec<_>>(), ["n", "n_low", "n_high"]);
    println!("ends");
    let copied: Vec<_> = con.copy_out(format!("COPY ({counted}) TO STDOUT CSV HEADER").as_str()).await?.try_collect().await?;
    assert!(copied.concat().starts_with(b"health,n\nexcellent,"));
    println!("copied");
    con.query_one("SELECT COUNT(*) AS n FROM people WHERE health = ANY($1)", &[&vec!["good", "fair"]]).await?;
    con.query_one("SELECT COUNT(*) AS n FROM people WHERE site IN ($1, $2)", &[&1i64, &2i64]).await?;
    println!("arrays");
    let tx = con.transaction().await?;
    tx.execute(format!("DECLARE some CURSOR FOR {counted}").as_str(), &[]).await?;
    assert_eq!(tx.query("FETCH 3 FROM some", &[]).await?.len(), 3);
    tx.commit().await?;
    println!("cursors");
    let found = con.query_one("SELECT table_name FROM information_schema.tables WHERE table_schema = $1 AND table_name = $2", &[&"public", &"people"]).await?;
    assert_eq!(found.get::<_, &str>(0), "people");
    println!("tables");
    let pool: Vec<_> = join_all((0..10).map(|_| to(real, password))).await.into_iter().collect::<Result<_, _>>()?;
    for some in pool.chunks(4) {
        for rows in join_all(some.iter().map(|(each, _)| each.query(counted.as_str(), &[]))).await { assert_eq!(rows?[3].get::<_, &str>(0), "poor"); }
    }
    println!("pools");
    Ok(())
}
