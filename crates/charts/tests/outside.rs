//! Every chart as its users meet it: in a page under a strict policy, in a file, with hostile names and broken numbers.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failure is how a test says no")]

mod xml;

use credence_charts::{
    Band, Bar, Bin, Chart, Curve, Mark, Pull, ScorePoint, Series, Share, bars, control, distribution, history, pulls,
    reliability, roc, sparkline,
};

const HOSTILE: [&str; 7] = [
    "plain",
    "</title></svg><script>alert('x')</script>",
    "\" onload=\"alert(1)\" style=\"x",
    "a & b &amp; &#x3c;script> <!-- ]]> <![CDATA[",
    "nul\0 esc\u{1b} c1\u{85} non\u{fffe}\u{ffff} rtl\u{202e}gnp\u{2069}",
    "line\nbreak\ttab\r",
    "漢字 🙂 e\u{301} Ω",
];
const NUMBERS: [f64; 12] = [
    0.0,
    -0.0,
    1.0,
    50.0,
    -17.5,
    1e-300,
    f64::MAX,
    f64::MIN,
    f64::MIN_POSITIVE,
    f64::NAN,
    f64::INFINITY,
    f64::NEG_INFINITY,
];

/// All kinds of chart with `name` wherever a caller's text goes and `values` wherever numbers go.
fn all(name: &str, values: &[f64]) -> Vec<Chart> {
    let at = |index: usize| values.get(index % values.len().max(1)).copied().unwrap_or(0.0);
    let point = |(index, mean): (usize, &f64)| ScorePoint {
        at: [0, 1, i64::MIN, i64::MAX, 1_700_000_000_000_000][index % 5],
        mean: *mean,
        stddev: at(index + 1),
        label: name.into(),
    };
    let points: Vec<ScorePoint> = values.iter().enumerate().map(point).collect();
    let bands: Vec<Band<'_>> =
        (0..values.len().min(9)).map(|index| Band { name, from: at(index), to: at(index + 1) }).collect();
    let shares: Vec<Share<'_>> =
        bands.iter().enumerate().map(|(index, band)| Share { band: *band, share: at(index) }).collect();
    let marks = [0, 1, usize::MAX].map(|index| Mark { index, text: name.into() });
    let series = Series { name, unit: name, points: values, mean: at(2), stddev: at(3), least: None, marks: &marks };
    let rates: Vec<(f64, f64)> = values.iter().enumerate().map(|(index, value)| (*value, at(index + 1))).collect();
    let curves = [Curve { name, points: &rates, area: at(1) }, Curve { name, points: &[], area: at(0) }];
    let bin = |(index, value): (usize, &f64)| Bin {
        predicted: *value,
        observed: at(index + 1),
        low: at(index + 2),
        high: at(index + 3),
        count: [0, 1, u64::MAX][index % 3],
    };
    let bins: Vec<Bin> = values.iter().enumerate().map(bin).collect();
    let pulled: Vec<Pull<'_>> =
        values.iter().map(|value| Pull { label: name, value: *value, detail: name.into() }).collect();
    let amounts: Vec<Bar<'_>> = values.iter().map(|value| Bar { label: name, value: *value }).collect();
    vec![
        history(name, &points, &bands),
        distribution(name, at(0), at(1), 250, &shares),
        control(name, &series),
        roc(name, &curves),
        reliability(name, &bins, values.first().copied()),
        sparkline(name, values),
        pulls(name, name, &pulled),
        bars(name, name, &amounts, at(0)),
    ]
}

/// Inputs of every length and every order of the strange numbers.
fn inputs() -> Vec<Vec<f64>> {
    let turned =
        (0..NUMBERS.len()).map(|turn| NUMBERS.iter().cycle().skip(turn).take(NUMBERS.len()).copied().collect());
    let alone = NUMBERS.iter().map(|number| vec![*number]);
    let equal = [vec![], vec![72.0; 2], vec![0.3; 130], vec![f64::NAN; 5]];
    turned.chain(alone).chain(equal).collect()
}

#[test]
fn everything_is_well_formed_whatever_comes_in() {
    for name in HOSTILE {
        for values in inputs() {
            for chart in all(name, &values) {
                let inline = chart.inline();
                xml::check(&inline).unwrap_or_else(|wrong| panic!("{wrong} in {inline}"));
                let file = chart.file();
                xml::check(&file).unwrap_or_else(|wrong| panic!("{wrong} in {file}"));
            }
        }
    }
}

#[test]
fn a_strict_policy_has_nothing_to_forbid_in_an_inline_chart() {
    const ELEMENTS: [&str; 9] = ["svg", "title", "g", "text", "line", "rect", "circle", "path", "desc"];
    for name in HOSTILE {
        for chart in all(name, &[40.0, 60.0, 50.0, 5.0]) {
            let inline = chart.inline();
            for forbidden in ["<style", " style=", "<script", " id="] {
                // An escaped quote keeps ` style=` inside a value from being an attribute; look at real ones below.
                assert!(!inline.contains(forbidden) || name.contains(forbidden), "{forbidden} in {inline}");
            }
            for (element, attributes) in xml::check(&inline).unwrap() {
                assert!(ELEMENTS.contains(&element.as_str()), "<{element}>");
                for (attribute, _) in attributes {
                    assert!(
                        attribute != "style"
                            && attribute != "id"
                            && attribute != "href"
                            && !attribute.starts_with("on")
                    );
                }
            }
        }
    }
}

#[test]
fn numbers_that_are_none_never_appear() {
    for values in inputs() {
        for chart in all("x", &values) {
            let text = format!("{} {}", chart.inline(), chart.summary());
            for strange in ["NaN", "inf", "Inf", "\"-0\""] {
                assert!(!text.contains(strange), "{strange} from {values:?} in {text}");
            }
        }
    }
}

#[test]
fn charts_without_anything_to_show_say_so_in_words() {
    for values in [vec![], vec![f64::NAN, f64::INFINITY]] {
        for chart in all("x", &values) {
            // A distribution of no bands is still a distribution.
            if !chart.summary().starts_with("Score 250") {
                assert!(chart.summary().starts_with("Nothing to show yet"), "{}", chart.summary());
                assert!(chart.inline().contains(" yet</text>"));
            }
        }
    }
}

#[test]
fn every_chart_has_its_text_alternative_and_its_title_first() {
    for chart in all("A title", &[40.0, 60.0, 50.0, 5.0]) {
        let inline = chart.inline();
        let found = xml::check(&inline).unwrap();
        let (root, attributes) = &found[0];
        let value = |name: &str| attributes.iter().find(|(other, _)| other == name).map(|(_, value)| value.as_str());
        assert_eq!((root.as_str(), value("role")), ("svg", Some("img")));
        assert!(value("class").is_some_and(|class| class.split(' ').any(|class| class == "c-chart")));
        assert!(value("aria-label").is_some_and(|label| label.starts_with("A title. ") && label.len() > 20));
        assert_eq!(found[1].0, "title");
        assert!(inline.contains("><title>A title</title>"));
        assert_eq!(chart.title(), "A title");
        assert!(chart.summary().ends_with('.'), "{}", chart.summary());
    }
}

#[test]
fn classes_are_known_to_the_stylesheet() {
    for values in inputs() {
        for chart in all("x", &values) {
            for (_, attributes) in xml::check(&chart.file()).unwrap() {
                for class in attributes.iter().filter(|(name, _)| name == "class").flat_map(|(_, v)| v.split(' ')) {
                    let plain = ["c-text", "c-stroke-0", "c-fill-0", "c-dash-0"]; // as the element is anyway
                    let rule = credence_charts::STYLE.contains(&format!(".{class} "));
                    assert!(
                        rule || plain.contains(&class) || credence_charts::STYLE.contains(&format!(".{class},")),
                        "{class}"
                    );
                }
            }
        }
    }
}

#[test]
fn coordinates_have_at_most_one_decimal_and_stay_in_the_picture() {
    for values in inputs() {
        for chart in all("x", &values) {
            let found = xml::check(&chart.inline()).unwrap();
            let (_, view) = found[0].1.iter().find(|(name, _)| name == "viewBox").unwrap();
            let farthest = view.split(' ').map(|part| part.parse::<f64>().unwrap()).fold(0.0, f64::max);
            for (element, attributes) in &found[1..] {
                for (name, value) in attributes {
                    if !["x", "y", "x1", "x2", "y1", "y2", "cx", "cy", "r", "width", "height"].contains(&name.as_str())
                    {
                        continue;
                    }
                    let number: f64 = value.parse().unwrap();
                    assert!(value.split_once('.').is_none_or(|(_, decimals)| decimals.len() <= 1), "{value}");
                    assert!((-1.0..=farthest).contains(&number), "{element} {name}={value} from {values:?}");
                }
            }
        }
    }
}
