// Penlight for Swift, over PenlightObjC: tensors with a type, sessions that any task may use, and `predict`, which does not block its caller.
//
//     let session = try Session(contentsOf: Bundle.main.url(forResource: "mobilenet_v2", withExtension: "pen")!)
//     let scores: Tensor<Float> = try await session.predict(Tensor(pixels, shape: [1, 3, 224, 224]))
//
// Not compiled where Penlight is tested, which has no Swift: parsed only. So there is little of it.
import Foundation
import PenlightObjC

/// What a tensor's elements may be.
public protocol TensorElement: Sendable {
    static var dataType: PENDataType { get }
}

extension Float: TensorElement { public static var dataType: PENDataType { .float32 } }
extension Double: TensorElement { public static var dataType: PENDataType { .float64 } }
extension Int8: TensorElement { public static var dataType: PENDataType { .int8 } }
extension UInt8: TensorElement { public static var dataType: PENDataType { .uint8 } }
extension Int16: TensorElement { public static var dataType: PENDataType { .int16 } }
extension Int32: TensorElement { public static var dataType: PENDataType { .int32 } }
extension Int64: TensorElement { public static var dataType: PENDataType { .int64 } }
extension Bool: TensorElement { public static var dataType: PENDataType { .bool } }

/// Elements in row-major order, and a shape.
public struct Tensor<Element: TensorElement>: Sendable {
    public let elements: [Element]
    public let shape: [Int]

    /// The elements must be as many as the shape says.
    public init(_ elements: [Element], shape: [Int]) throws {
        var count = 1
        for size in shape {
            let (product, overflows) = count.multipliedReportingOverflow(by: size)
            count = overflows || size < 0 ? Int.max : product  // of elements that no array has
            if count == Int.max { break }
        }
        guard elements.count == count else {
            throw PenlightError.wrongCount(expected: count, got: elements.count)
        }
        self.elements = elements
        self.shape = shape
    }

    /// What a model gave, if its elements are of this type.
    public init(_ tensor: PENTensor) throws {
        guard tensor.dataType == Element.dataType else {
            throw PenlightError.wrongType(expected: "\(Element.self)", got: "PENDataType \(tensor.dataType.rawValue)")
        }
        let start = tensor.bytes.assumingMemoryBound(to: Element.self)
        elements = Array(UnsafeBufferPointer(start: start, count: Int(tensor.count)))
        shape = tensor.shape.map { $0.intValue }
    }

    func boxed() throws -> PENTensor {
        let data = elements.withUnsafeBytes { Data($0) }
        return try PENTensor(data: data, shape: shape.map { NSNumber(value: $0) }, dataType: Element.dataType)
    }
}

public enum PenlightError: Error, Sendable, LocalizedError {
    case wrongCount(expected: Int, got: Int)
    case wrongType(expected: String, got: String)

    public var errorDescription: String? {
        switch self {
        case .wrongCount(let expected, let got):
            return "a tensor: expected \(expected) elements for its shape, got \(got)"
        case .wrongType(let expected, let got):
            return "a result: expected \(expected), got \(got)"
        }
    }
}

/// A model that is ready to run. Any task may use it: runs wait for each other, on a queue of the session's own.
public final class Session: @unchecked Sendable {
    private let module: PENModule
    private let queue = DispatchQueue(label: "org.pytorch.penlight.session")

    /// `device` is "cpu", or "vulkan" where the library has it; `threads` 0 is one per core.
    public init(contentsOf url: URL, device: String = "cpu", threads: Int = 0) throws {
        module = try PENModule(fileAtPath: url.path, device: device, threads: threads)
    }

    public var methodNames: [String] { module.methodNames }
    public var metadata: String { module.metadata }

    /// A model that takes tensors and gives one.
    public func predict<In: TensorElement, Out: TensorElement>(
        _ inputs: Tensor<In>..., method: String = "forward"
    ) async throws -> Tensor<Out> {
        try await run(method) { try inputs.map { try $0.boxed() } } finish: { result in
            guard let tensor = result as? PENTensor else {
                throw PenlightError.wrongType(expected: "a tensor", got: "\(type(of: result))")
            }
            return try Tensor<Out>(tensor)
        }
    }

    /// Any arguments and any result: PENTensor, NSNumber, NSString, NSNull, arrays, PENTuple and dictionaries come in and go out. `finish` takes
    /// from the result what the caller wants of it.
    public func run<Wanted: Sendable>(
        _ method: String = "forward",
        arguments: @escaping @Sendable () throws -> [Any],
        finish: @escaping @Sendable (Any) throws -> Wanted
    ) async throws -> Wanted {
        try await withCheckedThrowingContinuation { continuation in
            queue.async { [module] in
                do {
                    let result = try module.runMethod(method, arguments: arguments())
                    continuation.resume(returning: try finish(result))
                } catch {
                    continuation.resume(throwing: error)
                }
            }
        }
    }
}
