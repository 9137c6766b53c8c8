//! Canonical JSON (RFC 8785, JCS): the one byte string that stands for a JSON value, signed and hashed everywhere.
//!
//! The serialiser is `serde_json_canonicalizer`; this module gives its output a type and checks, in tests, the RFC's own
//! number and sorting cases.

use std::fmt;

use serde::Serialize;

use crate::Error;

/// Text known to be canonical JSON.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Canonical(String);

impl Canonical {
    /// Canonicalises `value`. Fails on maps whose keys are not strings, and on a bare NaN or infinity. Inside a document
    /// those would be written as `null`: whoever builds one keeps them out, as the signal's ranges and the engine's do.
    pub fn of(value: &impl Serialize) -> Result<Self, Error> {
        serde_json_canonicalizer::to_string(value).map(Self).map_err(|e| Error::Malformed(e.to_string()))
    }

    /// Text that is known to be canonical.
    pub(crate) fn known(text: String) -> Self {
        Self(text)
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The bytes that are signed and hashed.
    pub fn as_bytes(&self) -> &[u8] {
        self.0.as_bytes()
    }

    /// The text, owned.
    pub fn into_string(self) -> String {
        self.0
    }
}

impl fmt::Display for Canonical {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Canonical {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn canonical(value: Value) -> String {
        Canonical::of(&value).unwrap().into_string()
    }

    /// RFC 8785, Appendix B: IEEE 754 bits and the ECMAScript form.
    #[test]
    fn rfc_8785_numbers() {
        for (bits, text) in [
            (0x0000_0000_0000_0000_u64, "0"),
            (0x8000_0000_0000_0000, "0"),
            (0x0000_0000_0000_0001, "5e-324"),
            (0x8000_0000_0000_0001, "-5e-324"),
            (0x7fef_ffff_ffff_ffff, "1.7976931348623157e+308"),
            (0xffef_ffff_ffff_ffff, "-1.7976931348623157e+308"),
            (0x4340_0000_0000_0000, "9007199254740992"),
            (0xc340_0000_0000_0000, "-9007199254740992"),
            (0x4430_0000_0000_0000, "295147905179352830000"),
            (0x44b5_2d02_c7e1_4af5, "9.999999999999997e+22"),
            (0x44b5_2d02_c7e1_4af6, "1e+23"),
            (0x44b5_2d02_c7e1_4af7, "1.0000000000000001e+23"),
            (0x444b_1ae4_d6e2_ef4e, "999999999999999700000"),
            (0x444b_1ae4_d6e2_ef4f, "999999999999999900000"),
            (0x444b_1ae4_d6e2_ef50, "1e+21"),
            (0x3eb0_c6f7_a0b5_ed8c, "9.999999999999997e-7"),
            (0x3eb0_c6f7_a0b5_ed8d, "0.000001"),
            (0x41b3_de43_5555_5553, "333333333.3333332"),
            (0x41b3_de43_5555_5554, "333333333.33333325"),
            (0x41b3_de43_5555_5555, "333333333.3333333"),
            (0x41b3_de43_5555_5556, "333333333.3333334"),
            (0x41b3_de43_5555_5557, "333333333.33333343"),
            (0xbecb_f647_612f_3696, "-0.0000033333333333333333"),
            (0x4314_3ff3_c1cb_0959, "1424953923781206.2"),
        ] {
            assert_eq!(Canonical::of(&f64::from_bits(bits)).unwrap().as_str(), text);
        }
        assert!(Canonical::of(&f64::NAN).is_err());
        assert!(Canonical::of(&f64::INFINITY).is_err());
    }

    /// RFC 8785 §3.2.3: keys sort by UTF-16 code units, so U+1F602 comes before U+FB33.
    #[test]
    fn rfc_8785_sorting() {
        let value = json!({
            "\u{20ac}": "Euro Sign", "\r": "Carriage Return", "\u{fb33}": "Hebrew Letter Dalet With Dagesh",
            "1": "One", "\u{1f600}": "Emoji: Grinning Face", "\u{80}": "Control", "\u{f6}": "Latin Small Letter O With Diaeresis",
        });
        let text = canonical(value);
        let order = ["Carriage Return", "One", "Control", "Latin", "Euro", "Emoji", "Hebrew"];
        let positions: Vec<_> = order.iter().map(|name| text.find(name).unwrap()).collect();
        assert!(positions.is_sorted(), "{text}");
    }

    /// RFC 8785 §3.2.2: the example of literals, strings and numbers.
    #[test]
    fn rfc_8785_example() {
        let value: Value = serde_json::from_str(
            r#"{"numbers":[333333333.33333329,1E30,4.50,2e-3,0.000000000000000000000000001],"string":"\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/","literals":[null,true,false]}"#,
        )
        .unwrap();
        assert_eq!(
            canonical(value),
            "{\"literals\":[null,true,false],\"numbers\":[333333333.3333333,1e+30,4.5,0.002,1e-27],\"string\":\"€$\\u000f\\nA'B\\\"\\\\\\\\\\\"/\"}"
        );
    }
}
