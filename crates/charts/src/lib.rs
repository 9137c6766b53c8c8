//! Charts of trust, written as SVG text on the server: no script, no dependency, no drawing library.
//!
//! A [`Chart`] comes out in two ways. [`Chart::inline`] goes into a page under a strict content security policy: it
//! holds neither a `<style>` element, nor a `style` attribute, nor a script, only classes that the page's stylesheet
//! explains by including [`STYLE`]. [`Chart::file`] stands alone, with the same stylesheet inside.
//!
//! What every chart keeps:
//!
//! - Text from callers is hostile until escaped; `svg.rs` is the only place that writes markup, and it escapes all of it.
//! - Numbers that are NaN or infinite are left out. If nothing remains, the chart says so in words.
//! - Nothing is told by colour alone: shape, dash, position or text says it too.
//! - No `id` is ever written, so any number of charts can share a page.
//! - Text is drawn at 14 units of a 640 unit wide picture. The stylesheet enlarges it (to 17, then 20) on narrow screens
//!   and hides what is marked `c-extra`; every layout leaves room for the largest size. A page that shows charts in
//!   narrow columns of a wide screen puts `container-type: inline-size` on the element around the chart.
//!
//! ```
//! let chart = credence_charts::sparkline("agent <7>", &[61.0, 64.5, 72.0]);
//! assert!(chart.inline().contains("agent &lt;7&gt;"));
//! assert_eq!(chart.summary(), "Latest 72, lowest 61, highest 72, of 3 values.");
//! ```
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod bands;
mod chart;
mod control;
mod distribution;
mod frame;
mod history;
mod number;
mod observed;
mod reliability;
mod roc;
mod rows;
mod scale;
mod sparkline;
mod svg;
mod time;

pub use bands::Band;
pub use chart::Chart;
pub use control::{Mark, Series, control};
pub use distribution::{Share, distribution};
pub use history::{ScorePoint, history};
pub use observed::{MIN_OBSERVATIONS, Observed};
pub use reliability::{Bin, reliability};
pub use roc::{Curve, roc};
pub use rows::{Bar, Interval, Pull, bars, intervals, pulls};
pub use sparkline::sparkline;

/// The stylesheet of all charts: custom properties on `:root` (dark ones under `prefers-color-scheme: dark`) and classes,
/// every name beginning with `c-`. A page includes it once and may set the properties again after it.
pub const STYLE: &str = include_str!("chart.css");
