//! What clients must know of servers that are not Apache's of today.

use zk_client::{Dialect, OpCode};

/// The dialect for a manner of zk-embedded, by its name.
pub fn dialect_for(manner: &str) -> Dialect {
    let keeper = Dialect::clickhouse_keeper();
    match manner {
        "clickhouse-keeper" => keeper,
        "clickhouse-keeper-26" => keeper.with(OpCode::CREATE2).with(OpCode::ADD_WATCH),
        "raftkeeper" => {
            [OpCode::GET_EPHEMERALS, OpCode::SET_WATCHES2, OpCode::ADD_WATCH, OpCode::WHO_AM_I]
                .into_iter()
                .fold(Dialect::apache(), Dialect::without)
        }
        _ => Dialect::apache(),
    }
}
