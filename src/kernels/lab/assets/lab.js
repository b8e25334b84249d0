// Predictions: the reader answers first, then sees the measured value beside it. Nothing is stored or sent.
(() => {
  if (window.labPredictions) return;
  window.labPredictions = true;
  const reveal = (box) => {
    const output = box.querySelector("output");
    const choice = box.querySelector("input[type=radio]:checked");
    const typed = box.querySelector("input[type=text]");
    const mine = choice ? choice.value : typed ? typed.value.trim() : "";
    if (!mine) { output.textContent = "Commit to an answer first: a wrong one teaches more than none."; return; }
    let said = mine;
    if (typed && box.dataset.unit && /^[\d.,\s]+$/.test(mine)) said += " " + box.dataset.unit;
    output.textContent = "You said " + said + ". Measured: " + box.dataset.measured + ".";
  };
  document.addEventListener("click", (event) => {
    const button = event.target.closest && event.target.closest(".lab-predict button");
    if (button) reveal(button.closest(".lab-predict-box"));
  });
  document.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || !event.target.matches || !event.target.matches(".lab-predict input")) return;
    event.preventDefault();
    reveal(event.target.closest(".lab-predict-box"));
  });
})();
