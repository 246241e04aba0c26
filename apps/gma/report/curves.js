"use strict";
// What the pages of curves share: one colour a mixer, one dash for each of its variants.
const colors = ["#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377", "#bbbbbb"];
const dashes = ["solid", "dash", "dot", "dashdot"];

// name -> line of a trace, for all of `names`; `mixerOf` says a name's mixer.
function lineStyles(names, mixerOf) {
  const variants = new Map();
  for (const name of new Set(names)) {
    const mixer = mixerOf(name);
    variants.set(mixer, [...(variants.get(mixer) ?? []), name]);
  }
  const styles = new Map();
  [...variants.values()].forEach((group, mixer) => group.forEach((name, variant) => {
    styles.set(name, {
      color: colors[mixer % colors.length], dash: dashes[variant % dashes.length], width: 2,
    });
  }));
  return styles;
}

function drawCurves(div, traces, xTitle, yTitle, axis = {}) {
  const style = getComputedStyle(document.body);
  const line = style.getPropertyValue("--line");
  const common = { ...axis, gridcolor: line, zerolinecolor: line, linecolor: line };
  const layout = {
    margin: { t: 35, r: 10, b: 45, l: 70 },  // above: room for the buttons where no mouse hovers
    modebar: { bgcolor: "transparent", color: style.color },
    paper_bgcolor: "transparent", plot_bgcolor: "transparent", font: { color: style.color },
    xaxis: { ...common, title: { text: xTitle } }, yaxis: { ...common, title: { text: yTitle } },
    legend: { orientation: "h", y: -0.25 },
  };
  Plotly.react(div, traces, layout, { responsive: true, displaylogo: false });
}
