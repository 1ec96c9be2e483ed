//! The dialect of RE2J, in words of the crate `regex`.
//!
//! Both descend from RE2 and take linear time, and differ in what they let pass: `\Q…\E`, octal escapes, a brace that
//! counts nothing and a bracket within brackets are RE2J's; nested repetition, sets of sets, `(?x)` and property names
//! that are neither category nor script are not. What is left is put so that both read it alike.
//!
//! Topic names are ASCII, so for these classes are cut down to that: a repeated `.` stays small.
//!
//! Source: KIP-848, KIP-1152, RE2J Parser; each rule as Kafka 4.4.0 answers it.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::String;
use core::iter::Peekable;
use core::str::Chars;

/// The largest count of a repetition.
const COUNT_MAX: u32 = 1_000;
/// What topic names are made of, and more.
const ASCII: &str = r"[\x00-\x7F]";
/// Names that may stand in `[[:…:]]`.
const POSIX: [&str; 14] = [
    "alnum", "alpha", "ascii", "blank", "cntrl", "digit", "graph", "lower", "print", "punct", "space",
    "upper", "word", "xdigit",
];
/// Unicode's general categories.
const CATEGORIES: [&str; 37] = [
    "C", "Cc", "Cf", "Co", "Cs", "L", "Ll", "Lm", "Lo", "Lt", "Lu", "M", "Mc", "Me", "Mn", "N", "Nd", "Nl",
    "No", "P", "Pc", "Pd", "Pe", "Pf", "Pi", "Po", "Ps", "S", "Sc", "Sk", "Sm", "So", "Z", "Zl", "Zp", "Zs",
    "Any",
];

/// Why an expression is none of RE2J's.
pub type Wrong = &'static str;

/// What the names are made of that an expression is held against.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Alphabet {
    /// Topic names: no character beyond ASCII, and no line feed.
    Ascii,
    /// Transactional ids: anything.
    Unicode,
}

impl Alphabet {
    /// The most memory that a compiled expression may take, in bytes.
    pub(super) fn compiled_bytes_max(self) -> usize {
        match self {
            Self::Ascii => 1 << 20,
            Self::Unicode => 10 << 20,
        }
    }
}

/// The expression in words of the crate `regex`, without names of groups. Brackets and operators are as they were: what
/// is wrong with those the crate will find.
///
/// # Errors
/// What RE2J does not take, where the crate would.
pub fn translate(pattern: &str, alphabet: Alphabet) -> Result<String, Wrong> {
    let mut parser = Parser {
        rest: pattern.chars().peekable(),
        alphabet,
        out: String::new(),
        names: BTreeSet::new(),
        has_no_more_posix: false,
    };
    parser.expression()?;
    Ok(parser.out)
}

struct Parser<'a> {
    rest: Peekable<Chars<'a>>,
    alphabet: Alphabet,
    out: String,
    /// Names of groups so far.
    names: BTreeSet<String>,
    /// Set once it is known that `:]` does not come again, so that nothing is searched twice.
    has_no_more_posix: bool,
}

impl Parser<'_> {
    fn expression(&mut self) -> Result<(), Wrong> {
        let mut is_repeated = false;
        while let Some(char) = self.rest.next() {
            let repeats = match char {
                '*' | '+' | '?' => {
                    self.out.push(char);
                    true
                }
                '{' => self.count()?,
                _ => false,
            };
            if repeats {
                if is_repeated {
                    return Err("invalid nested repetition operator");
                }
                // Lazy or greedy: whether a whole name matches is the same.
                self.rest.next_if_eq(&'?');
            } else if char != '{' {
                self.one(char)?;
            }
            is_repeated = repeats;
        }
        Ok(())
    }

    /// One piece that is no repetition.
    fn one(&mut self, char: char) -> Result<(), Wrong> {
        match char {
            '(' => self.group()?,
            '[' => self.class()?,
            '\\' => self.escape()?,
            '.' => self.out.push_str(match self.alphabet {
                Alphabet::Ascii => ASCII,
                Alphabet::Unicode => ".",
            }),
            ')' | '|' | '^' | '$' => self.out.push(char),
            _ => self.literal(char),
        }
        Ok(())
    }

    fn literal(&mut self, char: char) {
        if char.is_ascii() && !char.is_ascii_alphanumeric() {
            self.out.push_str(&format!(r"\x{:02X}", u32::from(char)));
        } else {
            self.out.push(char);
        }
    }

    /// Behind a brace: a count, or else the brace was a plain one.
    fn count(&mut self) -> Result<bool, Wrong> {
        let mut ahead = self.rest.clone();
        let Some((min, max)) = counts(&mut ahead) else {
            self.literal('{');
            return Ok(false);
        };
        self.rest = ahead;
        if min > COUNT_MAX || max.is_some_and(|max| max > COUNT_MAX || max < min) {
            return Err("invalid repeat count");
        }
        match max {
            Some(max) => self.out.push_str(&format!("{{{min},{max}}}")),
            None => self.out.push_str(&format!("{{{min},}}")),
        }
        Ok(true)
    }

    /// Behind a bracket: a plain group, one with a name, or flags.
    fn group(&mut self) -> Result<(), Wrong> {
        if self.rest.next_if_eq(&'?').is_none() {
            self.out.push_str("(?:");
            return Ok(());
        }
        let mut ahead = self.rest.clone();
        ahead.next_if_eq(&'P');
        if ahead.next_if_eq(&'<').is_some() {
            self.rest = ahead;
            return self.group_name();
        }
        self.flags()
    }

    fn group_name(&mut self) -> Result<(), Wrong> {
        let mut name = String::new();
        loop {
            match self.rest.next() {
                Some('>') if !name.is_empty() => break,
                Some(char) if char.is_ascii_alphanumeric() || char == '_' => name.push(char),
                Some(_) | None => return Err("invalid named capture"),
            }
        }
        if !self.names.insert(name) {
            return Err("duplicate capture group name");
        }
        self.out.push_str("(?:");
        Ok(())
    }

    /// `U` does not say whether a whole name matches, and where there are no line feeds `m` and `s` do not either.
    fn flags(&mut self) -> Result<(), Wrong> {
        let (mut is_on, mut saw_flag) = (true, false);
        let mut flags = BTreeMap::new();
        let end = loop {
            match self.rest.next() {
                Some(flag @ ('i' | 'm' | 's')) if flag == 'i' || self.alphabet == Alphabet::Unicode => {
                    // Given twice, the later one counts.
                    flags.insert(flag, is_on);
                }
                Some('m' | 's' | 'U') => {}
                Some('-') if is_on => {
                    (is_on, saw_flag) = (false, false);
                    continue;
                }
                Some(end @ (':' | ')')) if is_on || saw_flag => break end,
                Some(_) | None => return Err("invalid or unsupported Perl syntax"),
            }
            saw_flag = true;
        };
        if flags.is_empty() && end == ')' {
            // No flag that counts, and no group.
            return Ok(());
        }
        self.out.push_str("(?");
        self.out.extend(flags.iter().filter(|(_, is_on)| **is_on).map(|(flag, _)| *flag));
        if flags.values().any(|is_on| !is_on) {
            self.out.push('-');
            self.out.extend(flags.iter().filter(|(_, is_on)| !**is_on).map(|(flag, _)| *flag));
        }
        self.out.push(end);
        Ok(())
    }

    /// Behind a backslash outside of a class.
    fn escape(&mut self) -> Result<(), Wrong> {
        match self.rest.peek() {
            Some('Q') => {
                self.rest.next();
                self.quoted();
            }
            Some('A' | 'b' | 'B' | 'z') => {
                // Words are of ASCII letters.
                self.out.push_str("(?-u:\\");
                self.out.extend(self.rest.next());
                self.out.push(')');
            }
            Some(_) | None => match self.group_escape()? {
                Some(class) => {
                    self.out.push_str(&format!("[{class}"));
                    self.end_class();
                }
                None => {
                    let char = self.char_escape()?;
                    self.literal(char);
                }
            },
        }
        Ok(())
    }

    /// Everything up to `\E`, or to the end, is meant as it stands.
    fn quoted(&mut self) {
        while let Some(char) = self.rest.next() {
            if char == '\\' && self.rest.next_if_eq(&'E').is_some() {
                return;
            }
            self.literal(char);
        }
    }

    /// Behind a backslash: a class of characters, if it is one.
    fn group_escape(&mut self) -> Result<Option<String>, Wrong> {
        let class = match self.rest.peek() {
            Some('d') => "[0-9]".into(),
            Some('D') => "[^0-9]".into(),
            Some('s') => r"[\t\n\x0C\r ]".into(),
            Some('S') => r"[^\t\n\x0C\r ]".into(),
            Some('w') => "[0-9A-Za-z_]".into(),
            Some('W') => "[^0-9A-Za-z_]".into(),
            Some('p') => return self.property(false).map(Some),
            Some('P') => return self.property(true).map(Some),
            Some(_) | None => return Ok(None),
        };
        self.rest.next();
        Ok(Some(class))
    }

    /// `\pL`, `\p{Greek}`, `\P{^Lu}`.
    fn property(&mut self, mut is_negated: bool) -> Result<String, Wrong> {
        const WRONG: Wrong = "invalid character class range";
        self.rest.next();
        let mut name = String::new();
        match self.rest.next().ok_or(WRONG)? {
            '{' => loop {
                match self.rest.next().ok_or(WRONG)? {
                    '}' => break,
                    char => name.push(char),
                }
            },
            char => name.push(char),
        }
        if name.starts_with('^') {
            is_negated = !is_negated;
            name.remove(0);
        }
        let letter = if is_negated { 'P' } else { 'p' };
        if CATEGORIES.contains(&name.as_str()) {
            return Ok(format!(r"\{letter}{{{name}}}"));
        }
        // Which scripts there are, the crate knows; it would also take their names in any case.
        let is_spelled = |word: &str| {
            word.starts_with(|first: char| first.is_ascii_uppercase())
                && word.chars().skip(1).all(|char| char.is_ascii_lowercase())
        };
        if name.len() > 2 && name.split('_').all(is_spelled) {
            return Ok(format!(r"\{letter}{{Script={name}}}"));
        }
        Err(WRONG)
    }

    /// Behind a backslash: one character.
    fn char_escape(&mut self) -> Result<char, Wrong> {
        const WRONG: Wrong = "invalid escape sequence";
        let char = self.rest.next().ok_or("trailing backslash")?;
        let is_octal = |char: &char| ('0'..='7').contains(char);
        Ok(match char {
            '0' => self.octal(char),
            // A single digit would be a back reference.
            '1'..='7' if self.rest.peek().is_some_and(is_octal) => self.octal(char),
            'x' => return self.hexadecimal().ok_or(WRONG),
            'a' => '\x07',
            'f' => '\x0C',
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            'v' => '\x0B',
            other if !other.is_ascii_alphanumeric() => other,
            _ => return Err(WRONG),
        })
    }

    fn octal(&mut self, first: char) -> char {
        let mut code = first.to_digit(8).unwrap_or(0);
        for _ in 0..2 {
            if let Some(digit) = self.rest.peek().and_then(|next| next.to_digit(8)) {
                code = code * 8 + digit;
                self.rest.next();
            } else {
                break;
            }
        }
        char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER)
    }

    /// Two digits, or any number of them in braces.
    fn hexadecimal(&mut self) -> Option<char> {
        let mut code = 0;
        if self.rest.next_if_eq(&'{').is_some() {
            let mut is_empty = true;
            loop {
                match self.rest.next()? {
                    '}' if !is_empty => break,
                    digit => code = code * 16 + digit.to_digit(16)?,
                }
                is_empty = false;
                if code > u32::from(char::MAX) {
                    return None;
                }
            }
        } else {
            for _ in 0..2 {
                code = code * 16 + self.rest.next()?.to_digit(16)?;
            }
        }
        // A half of a surrogate pair is in no name.
        Some(char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER))
    }

    /// Behind a square bracket.
    fn class(&mut self) -> Result<(), Wrong> {
        let is_negated = self.rest.next_if_eq(&'^').is_some();
        self.out.push_str(if is_negated { "[[^" } else { "[[" });
        let mut is_first = true;
        loop {
            let next = *self.rest.peek().ok_or("missing closing ]")?;
            match next {
                ']' if !is_first => break,
                '[' if self.posix()? => {}
                _ => self.class_item()?,
            }
            is_first = false;
        }
        self.rest.next();
        self.out.push(']');
        self.end_class();
        Ok(())
    }

    /// Closes a class, cut down to what names are made of.
    fn end_class(&mut self) {
        self.out.push_str(match self.alphabet {
            Alphabet::Ascii => "&&[\\x00-\\x7F]]",
            Alphabet::Unicode => "]",
        });
    }

    /// `[:alpha:]` within a class; anything else that begins like it and does not end so is a plain bracket.
    fn posix(&mut self) -> Result<bool, Wrong> {
        if self.has_no_more_posix || self.rest.clone().nth(1) != Some(':') {
            return Ok(false);
        }
        let rest: String = self.rest.clone().skip(2).collect();
        let Some((name, _)) = rest.split_once(":]") else {
            self.has_no_more_posix = true;
            return Ok(false);
        };
        if !POSIX.contains(&name.strip_prefix('^').unwrap_or(name)) {
            return Err("invalid character class range");
        }
        self.out.push_str(&format!("[:{name}:]"));
        self.rest.nth(name.chars().count() + 3);
        Ok(true)
    }

    /// One character, a range of them, or a class that has a name.
    fn class_item(&mut self) -> Result<(), Wrong> {
        let mut ahead = self.rest.clone();
        if ahead.next() == Some('\\') && ahead.peek().is_some_and(|next| "dDsSwWpP".contains(*next)) {
            self.rest.next();
            let class = self.group_escape()?.unwrap_or_default();
            self.out.push_str(&class);
            return Ok(());
        }
        let first = self.class_char()?;
        let mut ahead = self.rest.clone();
        let is_range = ahead.next() == Some('-') && ahead.peek().is_some_and(|next| *next != ']');
        self.class_literal(first);
        if is_range {
            self.rest.next();
            let last = self.class_char()?;
            if last < first {
                return Err("invalid character class range");
            }
            self.out.push('-');
            self.class_literal(last);
        }
        Ok(())
    }

    fn class_char(&mut self) -> Result<char, Wrong> {
        match self.rest.next().ok_or("missing closing ]")? {
            '\\' => self.char_escape(),
            char => Ok(char),
        }
    }

    fn class_literal(&mut self, char: char) {
        self.out.push_str(&format!(r"\x{{{:X}}}", u32::from(char)));
    }
}

/// `2}`, `2,}`, `2,3}` behind a brace; counts too large for a number are the largest one.
fn counts(rest: &mut Peekable<Chars<'_>>) -> Option<(u32, Option<u32>)> {
    let min = number(rest)?;
    let max = match rest.next()? {
        '}' => return Some((min, Some(min))),
        ',' if rest.peek() == Some(&'}') => None,
        ',' => Some(number(rest)?),
        _ => return None,
    };
    (rest.next()? == '}').then_some((min, max))
}

fn number(rest: &mut Peekable<Chars<'_>>) -> Option<u32> {
    let mut number: Option<u32> = None;
    while let Some(digit) = rest.peek().and_then(|next| next.to_digit(10)) {
        rest.next();
        number = Some(number.unwrap_or(0).saturating_mul(10).saturating_add(digit));
    }
    number
}
