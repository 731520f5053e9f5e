// How alike are images? node example.mjs A.jpg B.jpg ...; needs: npm install onnxruntime-web sharp (or onnxruntime-node in its place).
// In a browser the pixels come from a canvas: context.getImageData(...), less every fourth number.
import { readFileSync } from "node:fs";
import * as ort from "onnxruntime-web";
import sharp from "sharp";

const session = await ort.InferenceSession.create(readFileSync("model.onnx"));
const vectors = [];
for (const path of process.argv.slice(2)) {
  const { data, info } = await sharp(path).rotate().removeAlpha().toColourspace("srgb").raw().toBuffer({ resolveWithObject: true });
  const image = new ort.Tensor("uint8", new Uint8Array(data), [info.height, info.width, 3]); // of any size
  vectors.push((await session.run({ image })).embedding.data); // a unit vector
}
for (const a of vectors) console.log(vectors.map((b) => a.reduce((sum, x, i) => sum + x * b[i], 0).toFixed(4)).join(" ")); // cosines
