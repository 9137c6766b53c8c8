//! What agents say, claim, dispute and think of each other, signed by themselves.

use crate::{Error, history::Day, world::World};

/// What was claimed so far.
#[derive(Default)]
pub(crate) struct Claims {}

impl World {
    pub(crate) fn talk(&mut self, _day: Day) -> Result<(), Error> {
        Ok(())
    }
}
