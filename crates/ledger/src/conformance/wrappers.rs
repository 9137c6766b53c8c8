//! Ledgers that do the same in a harder way: what holds for the one behind must hold for them.

use crate::{Jobs, Ledger, Overlay, Result, Ticket, View, Work};

/// Runs every unit of work through an [`Overlay`].
pub struct Overlaid<L>(pub L);

impl<L: Ledger> Ledger for Overlaid<L> {
    fn origin(&self) -> &str {
        self.0.origin()
    }
    fn view(&self) -> Result<Box<dyn View + '_>> {
        self.0.view()
    }
    fn submit(&self, mut work: Work) -> Result<Ticket> {
        self.0.submit(Box::new(move |tx| {
            let kept = Overlay::run(tx, |overlay| {
                // What is not kept must not be flushed either.
                if work(overlay) { Ok(()) } else { Err(crate::Error::Log("undone".into())) }
            });
            kept.is_ok()
        }))
    }
    fn jobs(&self) -> &dyn Jobs {
        self.0.jobs()
    }
    fn flush(&self) -> Result<()> {
        self.0.flush()
    }
}

/// Runs every unit of work twice, as after a lost race: the first run is undone.
pub struct RunTwice<L>(pub L);

impl<L: Ledger> Ledger for RunTwice<L> {
    fn origin(&self) -> &str {
        self.0.origin()
    }
    fn view(&self) -> Result<Box<dyn View + '_>> {
        self.0.view()
    }
    fn submit(&self, work: Work) -> Result<Ticket> {
        let work = std::sync::Arc::new(std::sync::Mutex::new(work));
        let run = |keep: bool| {
            let work = std::sync::Arc::clone(&work);
            self.0.submit(Box::new(move |tx| {
                let kept = work.lock().unwrap_or_else(std::sync::PoisonError::into_inner)(tx);
                keep && kept
            }))
        };
        run(false)?.wait()?;
        run(true)
    }
    fn jobs(&self) -> &dyn Jobs {
        self.0.jobs()
    }
    fn flush(&self) -> Result<()> {
        self.0.flush()
    }
}
