//! The database under tokio: calls may wait for the medium, so they run on threads of tokio that may block. `cargo run -p sinterdb
//! --example with_tokio`.

use sinterdb::Db;
use tokio::runtime;
use tokio::task::{JoinSet, spawn_blocking};

/// Runs a call of the database beside the tasks. A handle is cheap to clone.
async fn blocking<T: Send + 'static>(db: &Db, call: impl FnOnce(&Db) -> sinterdb::Result<T> + Send + 'static) -> sinterdb::Result<T> {
    let db = db.clone();
    spawn_blocking(move || call(&db)).await.expect("the call does not panic")
}

async fn serve(db: Db) -> sinterdb::Result<()> {
    let mut requests = JoinSet::new();
    for request in 0..100u32 {
        let db = db.clone();
        requests.spawn(async move { blocking(&db, move |db| db.put(&request.to_be_bytes(), b"done")).await });
    }
    while let Some(request) = requests.join_next().await {
        request.expect("the task does not panic")?;
    }
    let done = blocking(&db, |db| db.iter().try_fold(0, |n, entry| entry.map(|_| n + 1))).await?;
    assert_eq!(done, 100);
    println!("{done} requests");
    spawn_blocking(|| db.close()).await.expect("the call does not panic")
}

fn main() -> sinterdb::Result<()> {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let db = Db::open(directory.path())?;
    runtime::Builder::new_current_thread().build().expect("a runtime").block_on(serve(db))
}
