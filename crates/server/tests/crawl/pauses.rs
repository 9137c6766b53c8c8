//! Hosts that answer 429: what is asked in the end, what is counted, and that every run ends. The clock of these tests stands still.

use std::time::{Duration, Instant};

use credence_pipeline::links::feeding::crawls;
use credence_server::crawl::{Selection, Totals};

use crate::house::{ANSWER, Allowance, FILE, House, id, stars};

const AGENTS: usize = 150;

async fn many(files: &[&str]) -> House {
    let house = House::of(files).await;
    for n in 0..AGENTS {
        house.linked(&format!("agent-{n}"), &format!("host:h{n}.example").parse().unwrap());
        house.world.put(&format!("api.stars.example/h{n}.example"), 200, stars(50.0));
    }
    house.world.put(ANSWER, 200, stars(50.0));
    house
}

/// The same questions, asked as `credence crawl --source` does: without claiming them.
fn of_the_source() -> Selection {
    Selection { source: Some(id("crawler-stars")), ..Selection::default() }
}

impl House {
    fn allow(&self, most: usize, window: Duration, retry_after: Option<&'static str>) {
        *self.world.allowance.lock().unwrap() = Some(Allowance::new(most, window, retry_after));
    }

    fn refused(&self) -> usize {
        self.world.allowance.lock().unwrap().as_ref().unwrap().refused
    }

    fn failures(&self) -> u64 {
        crawls(&*self.view()).unwrap().iter().flat_map(|(_, row)| row.failures.values()).sum()
    }
}

/// The source allows a third of the questions in a second. Each of them is answered once in the end, and none is a failure.
#[tokio::test(flavor = "multi_thread")]
async fn questions_wait_while_their_host_asks_for_a_pause() {
    for retry_after in [None, Some("1"), Some("0")] {
        for selection in [Selection::default(), of_the_source()] {
            let house = many(&[FILE]).await;
            house.allow(AGENTS / 3, Duration::from_secs(1), retry_after);
            let totals = house.run_with(&selection).await;
            let wanted = AGENTS + 1;
            let counted = (totals.asked, totals.signals, totals.nothing, totals.put_off);
            assert_eq!(counted, (wanted, wanted, 0, 0), "{retry_after:?} {selection:?}");
            assert!(house.refused() > 0, "the host asked for a pause");
            let mut asked = house.world.asked.lock().unwrap().clone();
            asked.retain(|(path, _)| path.starts_with("api."));
            let times = asked.len();
            asked.sort();
            asked.dedup();
            assert_eq!((times, asked.len()), (wanted, wanted), "answered once each");
            assert_eq!(house.failures(), 0);
            assert_eq!(house.run().await.asked, 0, "and not asked again");
        }
    }
}

/// Nobody waits for ten minutes. What was sent failed, the rest is due when the host allows it.
#[tokio::test(flavor = "multi_thread")]
async fn a_long_pause_is_left_to_a_later_run() {
    for selection in [Selection::default(), of_the_source()] {
        let house = many(&[FILE]).await;
        house.allow(0, Duration::from_secs(3600), Some("600"));
        let started = Instant::now();
        let totals = house.run_with(&selection).await;
        assert!(started.elapsed() < Duration::from_secs(60), "{:?}", started.elapsed());
        assert_eq!(totals.asked + totals.put_off, AGENTS + 1, "{totals:?}");
        assert!(totals.asked > 0 && totals.put_off > 0 && totals.nothing == totals.asked, "{totals:?}");
        assert_eq!((house.refused(), house.failures()), (totals.asked, totals.asked as u64));
        assert_eq!(house.run().await.asked, 0, "it is left alone");
        // The host still asks for a pause, by the machine's clock: what is due is not sent.
        house.advance(1_000);
        let again = house.run().await;
        assert_eq!((again.asked, again.put_off), (0, AGENTS + 1), "{again:?}");
        assert_eq!(house.refused(), totals.asked);
    }
}

/// A host that says "in a second" every time: the question fails once, after seven answers.
#[tokio::test(flavor = "multi_thread")]
async fn a_question_that_is_refused_again_and_again_fails() {
    let house = House::new().await;
    house.allow(0, Duration::from_secs(3600), Some("1"));
    let totals = house.run().await;
    assert_eq!(totals, Totals { asked: 1, nothing: 1, ..Totals::default() });
    assert_eq!((house.refused(), house.failures()), (7, 1));
    // The next time it answers.
    *house.world.allowance.lock().unwrap() = None;
    house.world.put(ANSWER, 200, stars(50.0));
    house.advance(3_600);
    assert_eq!(house.run().await.signals, 1);
}

/// Questions that were given back until a pause is over are not due while the clock stands still: the run ends all the same.
#[tokio::test(flavor = "multi_thread")]
async fn a_clock_that_stands_still_keeps_no_run_from_ending() {
    let house = House::new().await;
    house.allow(0, Duration::from_secs(3600), Some("6"));
    let totals = house.run().await;
    assert_eq!(totals, Totals { put_off: 1, ..Totals::default() });
    assert_eq!((house.refused(), house.failures()), (1, 0));
    *house.world.allowance.lock().unwrap() = None;
    house.world.put(ANSWER, 200, stars(50.0));
    house.advance(10);
    assert_eq!(house.run().await, Totals { asked: 1, signals: 1, ..Totals::default() });
}

/// A list that is read for all: its pages are turned on when the pause is over, and nobody's question fails.
#[tokio::test(flavor = "multi_thread")]
async fn a_list_is_read_on_after_a_pause() {
    let listed = FILE
        .replace("https://api.stars.example/{host}", "https://api.stars.example/all")
        .replace("[require]", "[page]\nrule = \"cursor\"\nparameter = \"cursor\"\npointer = \"/next\"\nmost = 9\n[select]\nitems = \"/items\"\nwhere = [{ pointers = [\"/name\"], equals = \"{host}\" }]\n[require]")
        .replace("required = [\"stars\", \"name\"]", "required = [\"items\"]")
        .replace("pointer = \"/stars\"", "pointer = \"/*/stars\"\nreduce = \"max\"");
    let house = House::of(&[&listed]).await;
    house.linked("other", &"host:b.example".parse().unwrap());
    let page = |name: &str, next: &str| format!(r#"{{"items": [{{"name": "{name}", "stars": 40}}]{next}}}"#);
    house.world.put("api.stars.example/all", 200, page("a.example", r#", "next": "two""#));
    house.world.put("api.stars.example/all?cursor=two", 200, page("b.example", ""));
    house.allow(1, Duration::from_millis(500), None);
    let totals = house.run().await;
    assert_eq!(totals, Totals { asked: 2, signals: 2, ..Totals::default() });
    assert!(house.refused() > 0 && house.failures() == 0);
    assert_eq!(house.inputs(), 1);
}
