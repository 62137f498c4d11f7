import OpportuneBase
import TestSupport
import Testing

@Suite(.bounded) struct EscapesTests {
  private let evil = "a\u{1B}]0;x\u{7}\u{9B}2J\r\nb\u{202E}c\u{0}\u{2028}\u{7F}\t"
  private let spelled = #"a\u{1B}]0;x\u{7}\u{9B}2J\r\nb\u{202E}c\u{0}\u{2028}\u{7F}\t"#

  @Test func whatSteersATerminalIsSpelledOut() {
    #expect(evil.printable == spelled)
    #expect(evil.printable.printable == spelled, "once is enough, and twice does no harm")
    #expect("a\nb\tc\u{1B}".printableLines == "a\nb\tc\\u{1B}")
    #expect(["a\nb", "c"].asLines == "a\\nb\nc\n")
  }

  /// Names of people and places are as they are written, with joiners and variants.
  @Test(arguments: ["", "Müllers Café", "👨‍👩‍👧", "می‌خواهم", "日本語", "🏴󠁧󠁢󠁥󠁮󠁧󠁿", #"C:\n"#, "e\u{301}"])
  func whatDoesNotStays(text: String) {
    #expect(Array(text.printable.unicodeScalars) == Array(text.unicodeScalars))
    #expect(Array(text.printableJSON.unicodeScalars) == Array(text.unicodeScalars))
  }

  /// A reader of HTML knows no grapheme clusters: a mark behind a quote does not hide it.
  @Test func markupIsEscapedByScalars() {
    #expect(
      "\"\u{301} onload=x <\u{338}b> & 'c'".inHTML
        == "&quot;\u{301} onload=x &lt;\u{338}b&gt; &amp; &#39;c&#39;")
    #expect("a\u{0}b\nc\u{9B}".inHTML == #"a\u{0}b"# + "\nc" + #"\u{9B}"#)
    #expect("a\u{9B}<b>\n".inXML == "a\u{9B}&lt;b&gt;\n")
  }

  @Test func jsonStaysTheSameDocument() {
    #expect(
      "{\"a\u{9B}\u{7F}\": \"\u{202E}\\n\"}\n".printableJSON == #"{"a\u009b\u007f": "\u202e\n"}"# + "\n")
  }
}
