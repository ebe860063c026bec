//! Claims about counters: each call counts once, whatever is lost, on whatever server.

#![expect(missing_docs, reason = "the names are the claims")]

use anyhow::Result;
use zk_client::{Client, CreateOptions, OpCode};
use zk_recipes::{Counter, ErrorKind};

use crate::claims::target::Target;
use crate::fault::{Fault, Faults};

/// Runs every claim of this file on the target that `$start` yields: see
/// [`target_claims!`](crate::target_claims).
#[macro_export]
macro_rules! counter_claims {
    ($($given:tt)*) => {
        $crate::target_claims! {
            [$($given)*],
            counter:
            a_counter_counts_once_although_replies_and_requests_are_lost,
            a_counter_reads_the_latest_value_from_every_server,
            writers_at_all_servers_get_numbers_of_their_own,
            a_counter_is_refused_if_its_data_is_no_number,
        }
    };
}

const PATH: &str = "/counters/one";

pub async fn a_counter_counts_once_although_replies_and_requests_are_lost(
    target: &Target,
) -> Result<()> {
    let faults = Faults::over(target.way());
    let client = target.builder().connector(faults.clone()).connect(&target.servers()).await?;
    let ours = Counter::new(&client, PATH)?;
    let theirs = Counter::new(&target.connect().await?, PATH)?;
    assert_eq!(ours.add(1).await?, 1);
    let mut value = 1;
    for fault in [
        Fault::LoseReply(OpCode::MULTI),
        Fault::LoseRequest(OpCode::MULTI),
        Fault::LoseReply(OpCode::GET_DATA),
        Fault::LoseRequest(OpCode::GET_DATA),
    ] {
        // The next write is refused, so there is a read as well.
        assert_eq!(theirs.add(10).await?, value + 10);
        faults.arm(fault);
        assert_eq!(ours.add(1).await?, value + 11, "{fault:?}");
        assert!(faults.happened(), "{fault:?}");
        value += 11;
    }
    faults.arm(Fault::LoseReply(OpCode::MULTI));
    let (added, others) = tokio::join!(ours.add(1), async {
        for _ in 0..20 {
            theirs.add(10).await?;
        }
        anyhow::Ok(())
    });
    others?;
    assert!((value..=value + 201).contains(&added?));
    assert_eq!(theirs.get_latest().await?, value + 201);
    assert!(faults.happened());
    Ok(())
}

pub async fn a_counter_reads_the_latest_value_from_every_server(target: &Target) -> Result<()> {
    let clients = target.connect_to_each().await?;
    let counters = clients.iter().map(|client| Counter::new(client, PATH));
    let counters = counters.collect::<Result<Vec<_>, _>>()?;
    for turn in 0..60 {
        let writer = &counters[turn % counters.len()];
        let value = writer.add(1).await?;
        for reader in &counters {
            assert_eq!(reader.get_latest().await?, value);
        }
    }
    Ok(())
}

pub async fn writers_at_all_servers_get_numbers_of_their_own(target: &Target) -> Result<()> {
    const TURNS: usize = 40;
    let mut clients = target.connect_to_each().await?;
    clients.push(target.connect().await?);
    let count = |client: Client| async move {
        let counter = Counter::new(&client, PATH)?;
        let mut numbers = Vec::new();
        for _ in 0..TURNS {
            numbers.extend(counter.reserve(2).await?);
        }
        anyhow::Ok(numbers)
    };
    let writers = clients.into_iter().map(|client| tokio::spawn(count(client)));
    let mut all = Vec::new();
    for writer in writers.collect::<Vec<_>>() {
        all.extend(writer.await??);
    }
    all.sort_unstable();
    assert_eq!(all, (0..all.len() as i64).collect::<Vec<_>>());
    Ok(())
}

pub async fn a_counter_is_refused_if_its_data_is_no_number(target: &Target) -> Result<()> {
    let client = target.connect().await?;
    client.create_all(PATH, b"seven", &CreateOptions::persistent()).await?;
    let error = Counter::new(&client, PATH)?.add(1).await.expect_err("no number");
    assert_eq!(error.kind(), ErrorKind::InvalidCounter);
    assert_eq!(client.get_data(PATH).await?.data, "seven");
    Ok(())
}
