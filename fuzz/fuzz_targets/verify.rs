//! `Engine::verify` on bytes, in both modes, on engines that have seen everything before: whatever comes in, a verdict is a
//! verdict, or the error says why not.
#![no_main]

use std::sync::OnceLock;

use credence_verify::{Call, Engine, Mode};
use libfuzzer_sys::fuzz_target;

static ENGINES: OnceLock<[Engine; 2]> = OnceLock::new();

fuzz_target!(|data: &[u8]| {
    let engines = ENGINES
        .get_or_init(|| [Mode::Fixed, Mode::Adaptive].map(|mode| Engine::builder().mode(mode).build()));
    // The first byte picks tool, session and time; the rest is the result and, after a zero byte, the arguments.
    let Some((choice, rest)) = data.split_first() else { return };
    let (result, args) = rest.split_once(|byte| *byte == 0).map_or((rest, None), |(result, args)| (result, Some(args)));
    let tool = ["a", "b", "c", "d"][usize::from(choice & 3)];
    let session = ["s", "t", "u", "v"][usize::from((choice >> 2) & 3)];
    let mut call = Call::from_bytes(tool, result).session(session);
    if let Some(args) = args {
        call = call.args_from_bytes(args);
    }
    if choice & 16 != 0 {
        call = call.execution_time_ms(f64::from(*choice) * 3.0);
    }
    for engine in engines {
        let dry = engine.verify(&call.learn(false));
        let wet = engine.verify(&call);
        match (dry, wet) {
            (Ok(dry), Ok(mut wet)) => {
                assert!(dry.changes.is_empty(), "nothing is learned, so nothing changes: {dry:?}");
                // What was learned is told beside the verdict, and is no part of it.
                let told = std::mem::take(&mut wet.changes);
                assert_eq!(dry, wet, "learning showed in the verdict, beside {told:?}");
                assert!((0.0..=1.0).contains(&wet.posterior), "{wet:?}");
                assert!(wet.checks.iter().all(|check| check.likelihood_ratio > 0.0 && (0.0..=1.0).contains(&check.score)));
                if choice & 32 != 0 {
                    let _ = engine.canary(&call);
                }
                let again = engine.record_feedback(tool, wet.posterior, choice & 64 != 0);
                assert!(again.is_ok());
            }
            (Err(_), Err(_)) => {}
            (dry, wet) => panic!("{dry:?} or {wet:?}"),
        }
    }
});

trait SplitOnce {
    fn split_once(&self, at: impl Fn(&u8) -> bool) -> Option<(&[u8], &[u8])>;
}

impl SplitOnce for [u8] {
    fn split_once(&self, at: impl Fn(&u8) -> bool) -> Option<(&[u8], &[u8])> {
        let place = self.iter().position(at)?;
        Some((&self[..place], &self[place + 1..]))
    }
}
