//! Tokens in memory, for an authority that ends with its process: a demo, a test.

use std::sync::{Mutex, MutexGuard, PoisonError};

use super::{Result, Token, TokenStore, Version};

/// Tokens that end with the process.
#[derive(Default)]
pub struct MemoryTokens(Mutex<Contents>);

#[derive(Default)]
struct Contents {
    tokens: Vec<Token>,
    changes: u64,
}

impl MemoryTokens {
    fn contents(&self) -> MutexGuard<'_, Contents> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl TokenStore for MemoryTokens {
    fn list(&self) -> Result<Vec<Token>> {
        Ok(self.contents().tokens.clone())
    }

    fn add(&self, token: Token) -> Result<()> {
        let mut contents = self.contents();
        super::push(&mut contents.tokens, token)?;
        contents.changes += 1;
        Ok(())
    }

    fn revoke(&self, id: &str) -> Result<bool> {
        let mut contents = self.contents();
        contents.changes += 1;
        Ok(super::remove(&mut contents.tokens, id))
    }

    fn version(&self) -> Result<Version> {
        Ok(Version(self.contents().changes.to_be_bytes().to_vec()))
    }
}
