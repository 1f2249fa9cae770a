//! The lower bound for the cost of following changes: a process that sleeps in `epoll_wait` until bytes arrive, reads them, and parses only
//! enough to count the changes. No client that each change wakes can be cheaper.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

use anyhow::{Context, Result, bail};
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use serde_json::json;

/// A connection that follows a table.
pub(crate) struct Floor {
    stream: UnixStream,
    epoll: Epoll,
    buffer: Vec<u8>,
}

impl Floor {
    /// Connects and reads the whole table.
    pub(crate) fn open(remote: &str, database: &str) -> Result<Floor> {
        let path = remote.strip_prefix("unix:").context("only unix: remotes")?;
        let mut stream = UnixStream::connect(path).with_context(|| format!("cannot connect to {path}"))?;
        let nil = "00000000-0000-0000-0000-000000000000";
        let monitored = json!({ "Port_Binding": [{ "columns": ["external_ids"] }] });
        let params = json!([database, "floor", monitored, nil]);
        let request = json!({ "id": 1, "method": "monitor_cond_since", "params": params });
        stream.write_all(request.to_string().as_bytes())?;
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
        epoll.add(&stream, EpollEvent::new(EpollFlags::EPOLLIN | EpollFlags::EPOLLET, 0))?;
        let mut floor = Floor { stream, epoll, buffer: vec![0; 1 << 16] };
        let end = br#","error":null}"#;
        let mut tail = Vec::new();
        while !tail.ends_with(end) {
            let count = floor.stream.read(&mut floor.buffer)?;
            if count == 0 {
                bail!("the server closed the connection");
            }
            tail.extend_from_slice(&floor.buffer[..count]);
            let surplus = tail.len().saturating_sub(end.len());
            tail.drain(..surplus);
        }
        Ok(floor)
    }

    /// Reads until this number of changes has arrived.
    pub(crate) fn changes(&mut self, count: usize) -> Result<()> {
        let mut seen = 0;
        while seen < count {
            self.epoll.wait(&mut [EpollEvent::empty()], EpollTimeout::NONE)?;
            let read = self.stream.read(&mut self.buffer)?;
            if read == 0 {
                bail!("the server closed the connection");
            }
            // Each update begins with its null id. The server also sends probes, at most once in a while; they are not answered.
            let begin = br#"{"id":null"#;
            seen += self.buffer[..read].windows(begin.len()).filter(|window| window == begin).count();
        }
        Ok(())
    }
}
