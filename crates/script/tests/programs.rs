//! Programs for a comparison with Redis: some by hand, most by a seeded generator.

/// Programs by hand, a line each, escaped. Each returns something that tells.
const BY_HAND: &str = include_str!("data/programs");

/// Text without escapes.
pub fn unescape(text: &str) -> Vec<u8> {
    let mut out = Vec::new();
    let mut rest = text.as_bytes();
    while let [first, others @ ..] = rest {
        (rest, out) = match (first, others) {
            (b'\\', [b'x', high, low, others @ ..]) => {
                let digit = |byte: &u8| (*byte as char).to_digit(16).expect("a digit") as u8;
                (others, [&out[..], &[digit(high) << 4 | digit(low)]].concat())
            }
            (b'\\', [byte, others @ ..]) => {
                let meant = match byte {
                    b'n' => b'\n',
                    b'r' => b'\r',
                    b't' => b'\t',
                    other => *other,
                };
                (others, [&out[..], &[meant]].concat())
            }
            (byte, others) => (others, [&out[..], &[*byte]].concat()),
        };
    }
    out
}

/// A small generator (xorshift64*).
pub struct Random(pub u64);

impl Random {
    pub fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32) % n
    }

    fn pick<'a>(&mut self, from: &[&'a str]) -> &'a str {
        from[self.below(from.len() as u64) as usize]
    }

    fn number(&mut self) -> String {
        let whole = self.below(1 << 20) as i64 - (1 << 19);
        match self.below(8) {
            0 => format!("{}", whole % 200),
            1 => format!("{whole}"),
            2 => format!("{whole}.{}", self.below(1000)),
            3 => format!("2^{}", self.below(64)),
            4 => format!("-2^{} - 1", self.below(50)),
            5 => format!("{}e{}", whole, self.below(40) as i64 - 20),
            6 => format!("{whole} / 7"),
            _ => format!("{}", whole % 10),
        }
    }

    fn text(&mut self, alphabet: &[&str]) -> String {
        (0..self.below(10)).map(|_| self.pick(alphabet)).collect()
    }

    fn value(&mut self, depth: u64) -> String {
        match self.below(if depth == 0 { 5 } else { 8 }) {
            0 => self.pick(&["true", "false", "cjson.null"]).to_owned(),
            1 | 2 => self.number(),
            3 | 4 => format!("'{}'", self.text(&["a", "Z", "0", " ", "\\n", "\\0", "\\255", "/", "\\\"", "\\\\", "\\127", "\\200\\169"])),
            5 | 6 => format!("{{{}}}", (0..self.below(5)).map(|_| self.value(depth - 1)).collect::<Vec<_>>().join(", ")),
            _ => {
                let mut field = |n| {
                    let key = match self.below(4) {
                        0 => format!("[{}]", self.below(12)),
                        1 => format!("['k {n}']"),
                        _ => format!("key{n}"),
                    };
                    format!("{key}={}", self.value(depth - 1))
                };
                format!("{{{}}}", (0..3).map(&mut field).collect::<Vec<_>>().join(", "))
            }
        }
    }

    fn program(&mut self) -> String {
        match self.below(12) {
            0 => format!("return {}", self.value(3)),
            1 | 2 => format!("return cjson.encode({})", self.value(3)),
            3 => format!("return cmsgpack.pack({})", self.value(3)),
            4 => format!("return cjson.encode({{cmsgpack.unpack(cmsgpack.pack({}))}})", self.value(3)),
            5 => {
                let text =
                    self.text(&["[", "]", "{", "}", ",", ":", "1", "-2.5e3", "\"a\"", "true", "null", " ", "\"\\\\u00e9\"", "0x1f", "nan"]);
                format!("local ok, v = pcall(cjson.decode, '{text}') return {{ok, ok and cjson.encode({{v}}) or v}}")
            }
            6 => {
                let bytes: String = (0..self.below(12)).map(|_| format!("\\{:03}", self.below(256))).collect();
                format!(
                    "local r = {{pcall(cmsgpack.unpack, '{bytes}')}} for i = 1, 9 do r[i] = tostring(r[i]):gsub('0x%x+', '') end return r"
                )
            }
            7 => {
                let format = self.text(&["b", "B", "h", "H", "l", "L", "i3", "I5", "f", "d", ">", "<", "!4", "!", "x", " ", "T", "i16"]);
                let numbers: Vec<_> = (0..10).map(|_| self.number()).collect();
                let numbers = numbers.join(", ");
                let pack = format!("local ok, s = pcall(struct.pack, '{format}', {numbers}) if not ok then return s end");
                let unpack = format!("local r = {{struct.unpack('{format}', s)}} for i = 1, #r do r[i] = tostring(r[i]) end");
                format!("{pack} {unpack} return {{s, struct.size('{format}'), r}}")
            }
            8 => {
                let name = self.pick(&["band", "bor", "bxor", "lshift", "rshift", "arshift", "rol", "ror"]);
                format!(
                    "return {{bit.{name}({}, {}), bit.tohex({}), bit.bswap({})}}",
                    self.number(),
                    self.number(),
                    self.number(),
                    self.number()
                )
            }
            9 | 10 => {
                let parts = [
                    "a", "b", ".", "%a", "%d", "%s", "[ab]", "[^a]", "[a-c]", "*", "+", "-", "?", "(", ")", "%1", "^", "$", "%b()",
                    "%f[%w]", "()",
                ];
                let (pattern, text) = (self.text(&parts), self.text(&["a", "b", "c", "1", " ", "(", ")", "ab"]));
                let call = self.pick(&["find", "match", "gsub"]);
                let replacement = if call == "gsub" { ", '<%0>'" } else { "" };
                let show = "for i = 1, 9 do r[i] = tostring(r[i]) end return r";
                format!("local r = {{pcall(string.{call}, '{text}', '{pattern}'{replacement})}} {show}")
            }
            _ => {
                let items: Vec<_> = (0..20).map(|_| self.below(10).to_string()).collect();
                let items = items.join(", ");
                let pairs = format!("local r = {{}} for i, v in ipairs({{{items}}}) do r[i] = {{v, i}} end");
                let order = self.pick(&["<", ">"]);
                format!("{pairs} table.sort(r, function(a, b) return a[1] {order} b[1] end) return cjson.encode(r)")
            }
        }
    }
}

/// Programs by hand.
pub fn by_hand() -> Vec<Vec<u8>> {
    BY_HAND.lines().map(unescape).collect()
}

/// All programs, the same in every run.
pub fn programs() -> Vec<Vec<u8>> {
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let generated = (0..1200).map(|_| random.program().into_bytes());
    by_hand().into_iter().chain(generated).collect()
}
