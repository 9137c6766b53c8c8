//! Agents on public frameworks, as processes of their own. `scripts/peers` installs the frameworks.

use std::{
    io::{BufRead, BufReader},
    process::{Child, Command, Stdio},
};

/// A program of other people that runs until this is dropped.
pub struct Outside {
    /// Where it answers.
    pub url: String,
    child: Child,
}

impl Drop for Outside {
    fn drop(&mut self) {
        // It may have ended by itself.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

impl Outside {
    /// An agent that prints its address as its first line.
    pub fn start(command: &mut Command) -> Self {
        command.env("NO_PROXY", "*").env("no_proxy", "*").stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut url = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut url).unwrap();
        assert!(url.starts_with("http://127.0.0.1:"), "{command:?} printed '{url}'");
        Self { url: url.trim().to_owned(), child }
    }
}
