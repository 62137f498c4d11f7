/// The bytes of a text such as `4096`, `64K`, `20M` or `1G`; the units are powers of 1024.
///
/// - Returns: `nil` where it is none, or 0, or too many for the type.
package func byteCount(of text: String) -> UInt64? {
  let units: [Character: UInt64] = ["K": 1 << 10, "M": 1 << 20, "G": 1 << 30]
  let unit = text.last.flatMap { units[Character($0.uppercased())] }
  let digits = unit == nil ? Substring(text) : text.dropLast()
  // UInt64 itself would take a sign.
  guard digits.allSatisfy({ $0.isASCII && $0.isNumber }), let number = UInt64(digits), number > 0,
    case (let product, let overflow) = number.multipliedReportingOverflow(by: unit ?? 1), !overflow
  else { return nil }
  return product
}
