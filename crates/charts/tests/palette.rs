//! The stylesheet's colours, measured: 4.5:1 for text, 3:1 for lines that carry meaning, in both schemes (WCAG 2.2,
//! 1.4.3 and 1.4.11). The grid only helps the eye and is exempt.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failure is how a test says no")]

use credence_charts::STYLE;
use std::collections::BTreeMap;

type Colour = [f64; 3];

fn schemes() -> [BTreeMap<String, Colour>; 2] {
    let (light, rest) = STYLE.split_once("@media (prefers-color-scheme: dark)").unwrap();
    let (dark, _) = rest.split_once("\n}\n").unwrap();
    [light, dark].map(properties)
}

fn properties(css: &str) -> BTreeMap<String, Colour> {
    let lines =
        css.lines().filter_map(|line| line.trim().strip_prefix("--c-")?.trim_end_matches(';').split_once(": #"));
    lines.map(|(name, hex)| (name.to_owned(), colour(hex))).collect()
}

fn colour(hex: &str) -> Colour {
    [0, 2, 4].map(|at| f64::from(u8::from_str_radix(&hex[at..at + 2], 16).unwrap()) / 255.0)
}

fn over(top: Colour, opacity: f64, ground: Colour) -> Colour {
    std::array::from_fn(|channel| top[channel] * opacity + ground[channel] * (1.0 - opacity))
}

fn contrast(a: Colour, b: Colour) -> f64 {
    let linear = |value: f64| if value <= 0.04045 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) };
    let luminance = |c: Colour| 0.2126 * linear(c[0]) + 0.7152 * linear(c[1]) + 0.0722 * linear(c[2]);
    let (a, b) = (luminance(a), luminance(b));
    (a.max(b) + 0.05) / (a.min(b) + 0.05)
}

fn opacity_of(class: &str) -> f64 {
    let (_, rest) = STYLE.split_once(&format!("\n.{class} {{")).unwrap();
    let (_, value) = rest.split_once("fill-opacity: ").unwrap();
    value.split_once(';').unwrap().0.parse().unwrap()
}

#[test]
fn the_measure_is_right() {
    assert!((contrast([0.0; 3], [1.0; 3]) - 21.0).abs() < 1e-9);
    assert!((contrast(colour("767676"), [1.0; 3]) - 4.54).abs() < 0.01);
}

#[test]
fn both_schemes_name_the_same_colours() {
    let [light, dark] = schemes();
    assert_eq!(light.keys().collect::<Vec<_>>(), dark.keys().collect::<Vec<_>>());
    assert!(light.len() >= 22);
}

#[test]
fn text_reads_on_paper_and_on_every_band() {
    for scheme in schemes() {
        for text in ["ink", "muted"] {
            assert!(contrast(scheme[text], scheme["paper"]) >= 4.5, "{text}");
        }
        for band in 0..8 {
            let wash = over(scheme[&format!("band-{band}")], opacity_of("c-wash"), scheme["paper"]);
            assert!(contrast(scheme["ink"], wash) >= 4.5, "ink on band {band}");
        }
    }
}

#[test]
fn lines_show_on_paper_and_on_every_band() {
    for scheme in schemes() {
        let lines = ["axis", "accent", "good", "warn", "bad", "other-1", "other-2", "other-3", "other-4", "other-5"];
        for line in lines {
            assert!(
                contrast(scheme[line], scheme["paper"]) >= 3.0,
                "{line}: {}",
                contrast(scheme[line], scheme["paper"])
            );
        }
        let zone = (0..3).fold(scheme["paper"], |ground, _| over(scheme["accent"], opacity_of("c-zone"), ground));
        for line in ["axis", "accent", "muted", "bad", "warn"] {
            assert!(contrast(scheme[line], zone) >= 3.0, "{line} on the inner zone: {}", contrast(scheme[line], zone));
        }
        for band in 0..8 {
            let wash = over(scheme[&format!("band-{band}")], opacity_of("c-wash"), scheme["paper"]);
            let ribbon = over(scheme["accent"], opacity_of("c-ribbon"), wash);
            for ground in [wash, ribbon] {
                assert!(contrast(scheme["accent"], ground) >= 3.0, "the line on band {band}");
            }
        }
    }
}

#[test]
fn colours_for_viewers_without_custom_properties_are_the_light_ones() {
    let light = STYLE.split_once("@media").unwrap().0;
    for (at, _) in STYLE.match_indices("var(--c-") {
        let name = STYLE[at + 4..].split_once(')').unwrap().0;
        let value = light.split_once(&format!("{name}: ")).unwrap().1.split_once(';').unwrap().0;
        let before = STYLE[..at].trim_end_matches(['f', 'i', 'l', 's', 't', 'r', 'o', 'k', 'e', ':', ' ']);
        assert!(before.ends_with(&format!("{value};")), "{name} is preceded by {}", &before[before.len() - 20..]);
    }
}

#[test]
fn every_name_has_the_prefix() {
    let outside_comments =
        STYLE.split("*/").map(|part| part.split("/*").next().unwrap_or_default()).collect::<String>();
    for (at, _) in outside_comments.match_indices('.') {
        let name = &outside_comments[at + 1..at + 3];
        assert!(name == "c-" || name.starts_with(|c: char| c.is_ascii_digit()), ".{name}");
    }
}
