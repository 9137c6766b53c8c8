//! Reports on agents (seed 4, R08; DESIGN, *Reports*): drafted from the ledger by a program, released by a person.
//!
//! ```text
//!            gather                approve            publish
//!  ledger ─────────► Draft ─────────────► Reviewed ─────────► Published
//!                     └───── reject ─────────┘ └──► Rejected     correct*, withdraw
//! ```
//!
//! - [`contents`]: what a report says: numbers, each with the entry that it was recorded in; [`gather`] reads them from the ledger;
//! - [`states`]: [`Draft`], [`Reviewed`], [`Rejected`], [`Published`]. Each is made from the one before, by a person with scope
//!   `review` who did not draft it; there is no other way to make one, and contents that are not published are shown to their
//!   drafter and to reviewers alone;
//! - `store`: the private database beside the ledger, whose constraints say the same;
//! - [`Desk`]: both together, with the entries that a decision leaves in the ledger;
//! - [`page`]: a report as headings, paragraphs and tables, laid out by `layout`; [`markdown`] and [`html`] render those, and escape every text.
//!
//! What a report's state is, the ledger says. A row of the database that says more is not believed.

pub mod contents;
mod desk;
mod error;
pub mod gather;
pub mod html;
mod incidents;
mod layout;
pub mod markdown;
pub mod page;
pub mod states;
mod store;

pub use contents::Contents;
pub use desk::{Desk, InForce, Listed};
pub use error::{Error, Result};
pub use states::{Actor, Draft, Published, Rejected, Report, Reviewed, Reviewer, Sheet};
