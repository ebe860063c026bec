//! A node that is not there, as an answer.

use zk_client::Error as ClientError;

/// What was read or done, or `None` if the node is not there.
pub(crate) fn unless_absent<T>(reply: Result<T, ClientError>) -> Result<Option<T>, ClientError> {
    match reply {
        Ok(done) => Ok(Some(done)),
        Err(error) if error.is_no_node() => Ok(None),
        Err(error) => Err(error),
    }
}
