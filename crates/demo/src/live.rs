//! Live traffic.
